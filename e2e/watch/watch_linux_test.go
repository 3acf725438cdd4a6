// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package watch watches with tacho what tacho has not started.
package watch

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// work is a command that waits for a line before it begins, so that it can be put into a cgroup.
type work struct {
	*exec.Cmd
	begin io.WriteCloser
}

// start starts a shell script in groups.
func start(t *testing.T, p *rig.Place, groups []string, script string) *work {
	t.Helper()
	w := &work{Cmd: p.Command(t.Context(), "/bin/sh", "-c", "read x; "+script)}
	w.begin = testkit.Value(w.StdinPipe())(t)
	testkit.Must(t, w.Start())
	for _, folder := range groups {
		testkit.Must(t, os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(w.Process.Pid)), 0))
	}
	return w
}

// goOn lets it begin.
func (w *work) goOn(t *testing.T) {
	t.Helper()
	testkit.Value(io.WriteString(w.begin, "\n"))(t)
}

// watch starts tacho watch; wait returns its record.
func watch(t *testing.T, p *rig.Place, args ...string) (wait func() (*record.Record, rig.Output)) {
	t.Helper()
	args = append([]string{"watch", "--output-dir", p.Out, "--format", "json", "--interval", "100ms"}, args...)
	ended := make(chan rig.Output, 1)
	go func() { ended <- rig.Capture(t, p.Command(t.Context(), rig.Tacho(), args...)) }()
	return func() (*record.Record, rig.Output) {
		t.Helper()
		out := <-ended
		if out.Code != 0 {
			t.Fatalf("tacho %s: exit code %d\n%s", args, out.Code, out.Stderr)
		}
		return p.TheRun(t).Record, out
	}
}

// folders are all directories of a group.
func folders(p *rig.Parent) []string { return p.Folders(p.Hierarchies()...) }

// watching waits until a watch has begun: its record has what is read then.
func watching(t *testing.T, p *rig.Place) {
	t.Helper()
	rig.Eventually(t, 30*time.Second, "the watch has begun", func() bool {
		runs, _ := record.ListBriefly(p.Out) // it is written just now, perhaps
		return len(record.Whole(runs)) == 1 && runs[0].Err == nil && runs[0].Record.Cgroup != nil
	})
}

// busy takes some CPU time by itself and in children that end.
func busy() string {
	loops := "20000"
	if os.Getenv("TACHO_GUEST") != "" { // an emulator takes ten times as long
		loops = "2000"
	}
	return strings.ReplaceAll(`n=0; while [ $n -lt 12 ]; do n=$((n+1)); sh -c 'i=0; while [ $i -lt LOOPS ]; do i=$((i+1)); done'
i=0; while [ $i -lt LOOPS ]; do i=$((i+1)); done; sleep 0.05; done`, "LOOPS", loops)
}

// seconds is a number of seconds as a Duration, to the nanosecond: as numbers with a fraction, two of the same duration
// may differ.
func seconds(n float64) time.Duration { return time.Duration(math.Round(n * float64(time.Second))) }

// step is that of cpu.stat, which may be what was read.
const step = time.Microsecond

// checkCPU holds the CPU time of a record between two differences of the kernel's readings; a lower bound may be less, if
// it may be one.
func checkCPU(t *testing.T, r *record.Record, least, most time.Duration, bound bool) {
	t.Helper()
	cpu := r.Headline[procstats.HeadlineCPU.String()]
	if cpu.Value == nil {
		t.Fatalf("no CPU time: %s", cpu.Reason)
	}
	t.Logf("CPU time %v %s, of the kernel %v to %v; %s %+v", *cpu.Value, cpu.Guarantee, least, most, cpu.Reason, cpu.Notes)
	less := bound && cpu.Guarantee == procstats.LowerBound
	if got := seconds(*cpu.Value); got > most+step || got < least-step && !less {
		t.Errorf("%v %s, want %v to %v", got, cpu.Guarantee, least, most)
	}
}

// TestCPU holds that the total is what was used since the watch began: a group by its own counter, between what that
// said before tacho was started and after its record was there; a tree at most that.
func TestCPU(t *testing.T) {
	rig.Require(t)
	for _, kind := range []string{"cgroup", "nested", "pid", "pid in a group"} {
		t.Run(kind, func(t *testing.T) {
			parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
			groups := folders(parent)
			if kind == "nested" {
				groups = folders(testkit.Value(parent.Sub(t, "below", rig.Self()))(t))
			}
			w := start(t, p, groups, busy())
			t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
			w.goOn(t)
			time.Sleep(200 * time.Millisecond) // CPU time that is not of the watch
			before := testkit.Value(parent.CPU())(t)
			args := []string{"--cgroup", folders(parent)[0]}
			if strings.HasPrefix(kind, "pid") {
				args = []string{"--pid", strconv.Itoa(w.Process.Pid)}
			}
			wait := watch(t, p, args...)
			watching(t, p)
			begun := testkit.Value(parent.CPU())(t)
			testkit.Must(t, w.Wait())
			end := testkit.Value(parent.CPU())(t)
			r, _ := wait()
			last := testkit.Value(parent.CPU())(t) // a process that has been waited for may still run to its very end
			checkCPU(t, r, end-begun, last-before, true)
			testkit.Equal(t, r.Diagnosis.Verdict, record.Watched, "verdict")
			testkit.Equal(t, r.ExitCode == nil, true, "no exit code")
			total, average := r.Headline[procstats.HeadlineCPU.String()], r.Headline[procstats.HeadlineCoresAverage.String()]
			if average.Guarantee != total.Guarantee || *average.Value != *total.Value / *r.SpanSeconds {
				t.Errorf("%v cores on average, %s, of %v s, %s, in %v s", *average.Value, average.Guarantee, *total.Value, total.Guarantee, *r.SpanSeconds)
			}
			if kind == "cgroup" || kind == "nested" {
				if r.Earlier == nil || seconds(r.Earlier.CPUSeconds) < before-step || seconds(r.Earlier.CPUSeconds) > begun {
					t.Errorf("used before %+v, want %v to %v", r.Earlier, before, begun)
				}
			}
		})
	}
}

// TestUntouched holds that what is watched runs on, and is as it was, whatever becomes of the watch: killed, ended by a
// signal or its time, or found by later commands.
func TestUntouched(t *testing.T) {
	rig.Require(t)
	parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
	w := start(t, p, folders(parent), "exec sleep 1000")
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	w.goOn(t)
	state := func() (text string) {
		for _, folder := range folders(parent) {
			for _, name := range []string{"cgroup.procs", "cgroup.subtree_control", "cgroup.freeze", "memory.max", "cpu.max"} {
				content, _ := os.ReadFile(filepath.Join(folder, name)) // not each hierarchy has all
				text += name + " " + string(content)
			}
			entries := testkit.Value(os.ReadDir(folder))(t)
			text += fmt.Sprint(len(entries)) + "\n"
		}
		return text
	}
	before := state()
	for _, signal := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGKILL, 0} {
		for _, what := range [][]string{{"--cgroup", folders(parent)[0]}, {"--pid", strconv.Itoa(w.Process.Pid)}} {
			place := rig.NewPlace(t, rig.Self())
			args := append([]string{"watch", "--output-dir", place.Out, "--timeout", "300ms"}, what...)
			if signal != 0 {
				args[4] = "0s"
			}
			cmd := place.Command(t.Context(), rig.Tacho(), args...)
			testkit.Must(t, cmd.Start())
			watching(t, place)
			stop := rig.Capture(t, place.Command(t.Context(), rig.Tacho(), "stop", "--output-dir", place.Out, "last"))
			if stop.Code == 0 || signal != 0 && !strings.Contains(stop.Stderr, "is a watch") {
				t.Errorf("tacho stop: exit code %d, said\n%s", stop.Code, stop.Stderr)
			}
			if signal != 0 {
				testkit.Must(t, cmd.Process.Signal(signal))
			}
			err := cmd.Wait()
			testkit.Equal(t, err == nil, signal != unix.SIGKILL, "ended well after %v", signal)
			for _, next := range [][]string{{"ls"}, {"run", "--output-dir", place.Out, "-q", "--", "true"}, {"prune", "--keep", "0"}} {
				rig.Capture(t, place.Command(t.Context(), rig.Tacho(), next...))
			}
		}
	}
	testkit.Equal(t, rig.Alive(w.Process.Pid), true, "it runs on")
	testkit.Equal(t, state(), before, "the cgroups are as they were")
}

// TestFrozen holds that a watch sleeps after its cgroup has changed: the kernel reports a change until it is read.
func TestFrozen(t *testing.T) {
	rig.Require(t)
	parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
	freezer := filepath.Join(slices.Concat(parent.Folders(""), []string{"/nonexistent"})[0], "cgroup.freeze")
	if _, err := os.Stat(freezer); err != nil {
		t.Skipf("no cgroup of version 2 can be frozen here: %v", err)
	}
	w := start(t, p, folders(parent), "exec sleep 1000")
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	w.goOn(t)
	cmd := p.Command(t.Context(), rig.Tacho(), "watch", "--output-dir", p.Out, "--cgroup", parent.Folders("")[0])
	testkit.Must(t, cmd.Start())
	watching(t, p)
	used := func() time.Duration { return testkit.Value(kernel.ProcessCPU(cmd.Process.Pid))(t) }
	for _, frozen := range []string{"1", "0"} {
		testkit.Must(t, os.WriteFile(freezer, []byte(frozen), 0))
	}
	before := used()
	time.Sleep(time.Second) // what is measured
	if spent := used() - before; spent > 300*time.Millisecond {
		t.Errorf("%v of CPU time in a second", spent)
	}
	testkit.Must(t, cmd.Process.Signal(unix.SIGINT))
	testkit.Must(t, cmd.Wait())
}

// TestTwo holds that two watches of one group, beside the tacho run that made it, tell the same.
func TestTwo(t *testing.T) {
	rig.Require(t)
	parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
	w := start(t, p, folders(parent), busy())
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	places := []*rig.Place{rig.NewPlace(t, rig.Self()), rig.NewPlace(t, rig.Self())}
	var waits []func() (*record.Record, rig.Output)
	for _, place := range places {
		waits = append(waits, watch(t, place, "--cgroup", folders(parent)[0]))
		watching(t, place)
	}
	begun := testkit.Value(parent.CPU())(t)
	w.goOn(t)
	testkit.Must(t, w.Wait())
	end := testkit.Value(parent.CPU())(t)
	var records []*record.Record
	for _, wait := range waits {
		r, _ := wait()
		records = append(records, r)
	}
	last := testkit.Value(parent.CPU())(t) // as in TestCPU, to the very end
	for _, r := range records {
		checkCPU(t, r, end-begun, last, false)
	}
}

// TestVanishing watches groups that come and go at once: each watch ends well, or says that nothing was there.
func TestVanishing(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("only root makes so many groups")
	}
	parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
	random := rig.Random(t)
	slots := make(chan struct{}, 8)
	var work sync.WaitGroup
	for n := range rig.Tries(40) {
		lives := time.Duration(10+random.IntN(rand.IntN(500)+1)) * time.Millisecond
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			vanish(t, p, parent, fmt.Sprintf("g%d", n), lives)
		})
	}
	work.Wait()
	testkit.Equal(t, len(p.Leftovers()), 0, "left behind")
}

func vanish(t *testing.T, p *rig.Place, parent *rig.Parent, name string, lives time.Duration) {
	t.Helper()
	var all []string
	for _, above := range folders(parent) {
		all = append(all, filepath.Join(above, name))
		if err := os.Mkdir(filepath.Join(above, name), 0o755); err != nil {
			t.Error(err)
		}
	}
	w := start(t, p, all, "exec sleep "+strconv.FormatFloat(lives.Seconds(), 'f', 3, 64))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.WriteString(w.begin, "\n")
		_ = w.Wait()
		for _, folder := range all {
			for os.Remove(folder) != nil && rig.Alive(os.Getpid()) {
				if _, err := os.Stat(folder); err != nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	out := rig.Capture(t, p.Command(t.Context(), rig.Tacho(),
		"watch", "--output-dir", filepath.Join(p.Out, name), "--cgroup", all[0]))
	<-gone
	late := out.Code == 125 && strings.Contains(out.Stderr, "no process belongs to it here")
	if out.Code != 0 && !late || out.Code == 0 && !strings.Contains(out.Stderr, "Watched until no process was left") {
		t.Errorf("%v: exit code %d, said\n%s", lives, out.Code, out.Stderr)
	}
}
