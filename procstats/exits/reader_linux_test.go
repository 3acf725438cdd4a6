// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// openReader returns a reader, or skips with the reason why there is none.
func openReader(t *testing.T) *Reader { return openWith(t, Open) }

func openWith(t *testing.T, open func(kernel.FS) (*Reader, error)) *Reader {
	t.Helper()
	r, err := open(kernel.HostFS())
	switch {
	case err == nil:
	case os.Getenv("TACHO_GUEST") != "": // where nothing is in the way
		t.Fatal(err)
	case errors.Is(err, unix.EPERM), errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrBusy), strings.Contains(err.Error(), "PID namespace"):
		t.Skipf("no exit records here: %v", err)
	default: // what loads does not work
		t.Fatal(err)
	}
	closing(t, r)
	return r
}

// group makes a cgroup of version 2.
func group(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var stat unix.Statfs_t
		if unix.Statfs(root, &stat) != nil || stat.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(root, "exits-")
		if err != nil {
			t.Skipf("no cgroup of version 2: %v", err)
		}
		t.Cleanup(func() { noError(t, os.Remove(dir)) })
		return dir
	}
	t.Skip("cgroup version 2 is not mounted")
	return ""
}

// start starts a command in a cgroup.
func start(t *testing.T, dir string, cmd *exec.Cmd) error {
	t.Helper()
	f := testkit.Value(os.Open(dir))(t)
	defer f.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	return cmd.Start()
}

// run runs a command in a cgroup and returns its PID.
func run(t *testing.T, dir string, cmd *exec.Cmd) int {
	t.Helper()
	must(t, start(t, dir, cmd))
	_ = cmd.Wait() // some fail on purpose
	return cmd.ProcessState.Pid()
}

// shell returns a command that runs a script; where there is no shell the test is skipped.
func shell(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Skipf("no shell here: %v", err)
	}
	cmd := exec.Command(path, "-c", script)
	cmd.Env = append(os.Environ(), "SELF="+os.Args[0])
	return cmd
}

// usage is the cgroup's own account, in seconds.
func usage(t *testing.T, dir string) float64 {
	t.Helper()
	text := testkit.Value(os.ReadFile(filepath.Join(dir, "cpu.stat")))(t)
	fields := strings.Fields(string(text))
	n, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || fields[0] != "usage_usec" {
		t.Fatalf("cpu.stat: %q", text)
	}
	return n / 1e6
}

// processes counts all that have ended.
func processes(s Summary) (n int64) {
	for _, c := range s.Commands {
		n += c.Processes
	}
	return n
}

// watch counts what a command does, as a map by command; the CPU time is in s.
func watch(t *testing.T, r *Reader, cmd *exec.Cmd) (byName map[string]procstats.Command, s Summary, total float64) {
	t.Helper()
	dir := group(t)
	w, err := r.Watch(dir)
	must(t, err)
	run(t, dir, cmd)
	for { // orphans end later, and without a word
		events := testkit.Value(os.ReadFile(filepath.Join(dir, "cgroup.events")))(t)
		if strings.Contains(string(events), "populated 0") {
			break
		}
		<-time.After(time.Millisecond)
	}
	if s, err = w.Finish(time.Second); err != nil {
		t.Fatal(err)
	}
	byName = make(map[string]procstats.Command)
	for _, c := range s.Commands {
		byName[c.Name] = c
	}
	total = usage(t, dir)
	noError(t, w.Close())
	return byName, s, total
}

// Every process has its row with its status, and all of them together have what the cgroup counted.
func TestRowsAddUpToTheCgroup(t *testing.T) {
	r := openReader(t)
	type count struct{ processes, failed int64 }
	for name, test := range map[string]struct {
		script string
		want   map[string]count
	}{
		"short": {"for i in $(seq 200); do /bin/true; done; /bin/false; :", map[string]count{"true": {200, 0}, "false": {1, 1}, "seq": {1, 0}, "sh": {1, 0}}},
		"at once": {
			"for i in $(seq 40); do cat /proc/self/stat >/dev/null & done; wait; exit 4", map[string]count{"cat": {40, 0}, "seq": {1, 0}, "sh": {1, 1}},
		},
		"orphans": {
			"for i in $(seq 20); do (sh -c 'sleep 0.01; exit 3' &) ; done; sleep 0.3; :", map[string]count{"sh": {41, 20}, "sleep": {21, 0}, "seq": {1, 0}},
		},
		"chain": { // of which the middle exits first
			"sh -c 'sh -c \"sleep 0.1; cat /dev/null; exit 5\" & exit 4'; sleep 0.3; :", map[string]count{"sh": {3, 2}, "sleep": {2, 0}, "cat": {1, 0}},
		},
		"exec": { // the name is that at the end
			"for i in 1 2 3; do sh -c 'exec sh -c \"exec /bin/true\"'; done; :", map[string]count{"true": {3, 0}, "sh": {1, 0}},
		},
		"signals": {
			"for i in 1 2 3; do sh -c 'kill -9 $$'; done 2>/dev/null; sh -c 'kill -15 $$'; :", map[string]count{"sh": {5, 4}},
		},
		"threads": {"EXITS_HELPER=leader exec $SELF", map[string]count{helperName: {1, 1}}},
		"forks":   {"f() { [ $1 = 0 ] || (f $(($1-1)); :) & wait; }; f 12", map[string]count{"sh": {14, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, s, total := watch(t, r, shell(t, test.script))
			var cpu float64
			for name, c := range rows {
				cpu += c.CPUSeconds
				if want := test.want[name]; c.Processes != want.processes || c.Failed != want.failed {
					t.Errorf("%s: %d processes, %d failed; want %v", name, c.Processes, c.Failed, want)
				}
			}
			if off := math.Abs(cpu-total) / total; off > 0.01 || s.Lost > 0 || len(rows) != len(test.want) {
				t.Errorf("%d rows have %.6f of %.6f s; %d records lost", len(rows), cpu, total, s.Lost)
			}
		})
	}
}

// Processes of this test's own say the same, where there is no other program: on other kernels.
func TestSpawned(t *testing.T) {
	r := openReader(t)
	args := []string{linkTo(t, "dead") + " kill", linkTo(t, "threads") + " leader"}
	well, ill := linkTo(t, "well")+" exit 0", linkTo(t, "ill")+" exit 6"
	for range 5 {
		args = append(args, well, well, ill)
	}
	cmd := exec.Command(linkTo(t, "spawner"), args...)
	cmd.Env = append(os.Environ(), "EXITS_HELPER=spawn")
	rows, s, total := watch(t, r, cmd)
	var cpu float64
	got := make(map[string][]procstats.CommandFailure)
	for name, c := range rows {
		cpu += c.CPUSeconds
		got[name] = append(c.Failures, procstats.CommandFailure{Processes: c.Processes})
	}
	delete(got, "spawner") // which forks once more to see whether there are pidfds
	want := map[string][]procstats.CommandFailure{
		"well": {{Processes: 10}}, "ill": {{ExitCode: 6, Processes: 5}, {Processes: 5}},
		"dead": {{Signal: 9, Processes: 1}, {Processes: 1}}, "threads": {{ExitCode: 3, Processes: 1}, {Processes: 1}},
	}
	testkit.Diff(t, "result", want, got)
	if off := math.Abs(cpu-total) / total; off > 0.01 || s.Lost > 0 {
		t.Errorf("rows have %.6f of %.6f s; %d records lost", cpu, total, s.Lost)
	}
}

// A process that needs less than its parent had when it was forked cannot be told apart from that.
func TestInheritedPeak(t *testing.T) {
	rows, _, _ := watch(t, openReader(t), shell(t, "EXITS_HELPER=fork exec $SELF"))
	if c := rows["true"]; c.PeakRSSGuarantee != procstats.UpperBound || c.PeakRSSBytes < 2<<20 {
		t.Errorf("true below a larger process: %+v", c)
	}
}

// A process that ends below two watched cgroups belongs to the inner one: the trial watches the root, and runs when
// tasks do. One that ends beside them is not counted.
func TestDeepestWatch(t *testing.T) {
	r, dir := openReader(t), group(t)
	dirs := []string{dir, filepath.Join(dir, "task"), filepath.Join(dir, "task/nest"), filepath.Join(dir, "task/nest/below")}
	for _, d := range dirs[1:] {
		must(t, os.Mkdir(d, 0o755))
		defer func() { noError(t, os.Remove(d)) }()
	}
	outer, errOuter := r.Watch(dirs[0])
	inner, errInner := r.Watch(dirs[1])
	must(t, errors.Join(errOuter, errInner))
	for _, d := range dirs[1:] {
		run(t, d, shell(t, "/bin/true; /bin/true; :"))
	}
	run(t, dirs[0], shell(t, "/bin/false; :"))
	run(t, group(t), shell(t, "/bin/true; :"))
	for _, test := range []struct {
		watch *Watch
		want  int64
	}{{inner, 9}, {outer, 2}} {
		s, err := test.watch.Finish(time.Second)
		ended := processes(s)
		if ended != test.want || s.Lost > 0 || err != nil {
			t.Errorf("%d have ended, %d are lost, %v; want %d", ended, s.Lost, err, test.want)
		}
		noError(t, test.watch.Close())
	}
}

// TestLeft counts the processes that end elsewhere: children that nobody waits for, and those of a process that had
// left.
func TestLeft(t *testing.T) {
	r := openWith(t, OpenOne)
	if err := r.Try(); err != nil { // none of the processes below may end where it is watched
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		script string
		want   int64
	}{
		"none":     {"for i in 1 2 3; do /bin/true; done; (:) & wait", 0},
		"a child":  {"/bin/true; (echo 0 >$OTHER/cgroup.procs; /bin/true; :) & wait", 1},
		"the main": {"echo 0 >$OTHER/cgroup.procs; /bin/true; :", 1},
		"and back": {"echo 0 >$OTHER/cgroup.procs; echo 0 >$OWN/cgroup.procs; /bin/true; :", 0},
		"threads":  {"EXITS_HELPER=leader $SELF; :", 0},
	} {
		t.Run(name, func(t *testing.T) {
			own, other := group(t), group(t)
			w := testkit.Value(r.Watch(own))(t)
			cmd := shell(t, test.script)
			cmd.Env = append(cmd.Env, "OWN="+own, "OTHER="+other)
			run(t, own, cmd)
			s := testkit.Value(w.Finish(300 * time.Millisecond))(t)
			if s.Left != test.want {
				t.Errorf("%d have left, want %d: %+v", s.Left, test.want, s.Commands)
			}
			noError(t, w.Close())
		})
	}
}

// Of the deepest cgroup that is watched, what ends below it is counted, and one further down is refused.
func TestDepth(t *testing.T) {
	const deepest = 15
	r, dir := openReader(t), group(t) // the first is at level 1
	for level := 1; level < deepest+1; level++ {
		dir = filepath.Join(dir, "d")
		must(t, os.Mkdir(dir, 0o755))
		defer func() {
			noError(t, os.Remove(dir))
			dir = filepath.Dir(dir)
		}()
	}
	if _, err := r.Watch(dir); err == nil || !strings.Contains(err.Error(), "more than 15 others above it") {
		t.Errorf("watch at level %d: %v", deepest+1, err)
	}
	if _, err := r.Watch(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("watch a cgroup that is not there: %v", err)
	}
	one := openWith(t, OpenOne)
	if w, err := one.Watch(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("watch one cgroup that is not there: %v, %v", w, err)
	}
	for name, r := range map[string]*Reader{"many": r, "one": one} {
		w := testkit.Value(r.Watch(filepath.Dir(dir)))(t)
		noError(t, r.Try()) // which watches the root meanwhile
		run(t, dir, shell(t, "/bin/true; /bin/true; :"))
		run(t, group(t), shell(t, "/bin/true; :"))
		s, err := w.Finish(time.Second)
		ended := processes(s)
		if ended != 3 || err != nil {
			t.Errorf("%s: %d processes have ended, %v; want 3", name, ended, err)
		}
		noError(t, w.Close())
	}
}

// TestLastEnd holds that the end of the last process is known, unless one has left the cgroup.
func TestLastEnd(t *testing.T) {
	r := openReader(t)
	for name, left := range map[string]bool{"all end there": false, "one leaves": true} {
		dir, script := group(t), "/bin/true"
		if script += "; exec sleep 0.02"; left {
			script = "/bin/true; echo $$ > " + filepath.Dir(dir) + "/cgroup.procs"
		}
		w, before := testkit.Value(r.Watch(dir))(t), kernel.Now().Mono
		run(t, dir, shell(t, script))
		s, err := w.Finish(time.Second)
		must(t, errors.Join(err, w.Close()))
		after := kernel.Now().Mono
		if known := s.LastEnd != 0; known == left || known && (s.LastEnd < before+20*time.Millisecond || s.LastEnd > after) {
			t.Errorf("%s: at %v, between %v and %v", name, s.LastEnd, before, after)
		}
	}
}
