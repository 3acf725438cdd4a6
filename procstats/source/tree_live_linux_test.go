// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
	gopsutil "github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func TestTreeOfLivingProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a) R 1 (\n\xff") // a hostile name
	must(t, os.Symlink(os.Args[0], path))
	busy := playFrom(t, path, "busy")
	pids := append(sleepers(t, 3), busy.Process.Pid)
	slices.Sort(pids)
	tree := treeOf(t, rootsOf(pids...))
	var s procstats.Sample
	collect(&s, tree)
	if diff := cmp.Diff(pids, pidsOf(&s)); diff != "" {
		t.Fatalf("PIDs (-want +got)\n%s", diff)
	}
	for _, r := range s.Task {
		aboutCgroup := r.ID() >= procstats.TreeOutside && r.ID() <= procstats.TreeLeftPressure || r.ID() == procstats.TreeJoined ||
			r.ID() >= procstats.TreeUncharged && r.ID() <= procstats.TreeUnchargedAround ||
			r.ID() == procstats.TreeChargedMapped
		if r.Present() == aboutCgroup {
			t.Errorf("%s is absent: %s", r.ID().String(), r.Reason())
		}
	}
	if live := mustNumber(t, &s, procstats.TreeCPULive); live < 0.3 {
		t.Errorf("the processes have used %v s, and one of them alone 0.3", live)
	}
	for i := range s.Processes {
		// A program that is still starting grows between two readings.
		for began := time.Now(); s.Processes[i].Command == "cat" && !sameMemory(t, &s.Processes[i]); collect(&s, tree) {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("process %d never has the memory that gopsutil says", s.Processes[i].PID)
			}
		}
		compareWithLibraries(t, &s.Processes[i])
	}
}

// sameMemory reports whether gopsutil reads the same memory as is in a row.
func sameMemory(t *testing.T, row *procstats.ProcessRow) bool {
	t.Helper()
	p := testkit.Value(gopsutil.NewProcess(int32(row.PID)))(t)
	memory := testkit.Value(p.MemoryInfo())(t)
	rss, _ := row.Readings.Number(procstats.ProcessRSS)
	vsize, _ := row.Readings.Number(procstats.ProcessVsize)
	return rss == float64(memory.RSS) && vsize == float64(memory.VMS)
}

// compareWithLibraries holds a row against what two other readers say of the process.
func compareWithLibraries(t *testing.T, row *procstats.ProcessRow) {
	t.Helper()
	fs := testkit.Value(procfs.NewDefaultFS())(t)
	p := testkit.Value(fs.Proc(row.PID))(t)
	stat := testkit.Value(p.Stat())(t)
	want := procstats.ProcessRow{ProcessID: procstats.ProcessID{PID: stat.PID, Start: stat.Starttime}, PPID: stat.PPID, Command: procstats.EscapeName(stat.Comm)}
	got := procstats.ProcessRow{ProcessID: row.ProcessID, PPID: row.PPID, Command: row.Command}
	testkit.Diff(t, "result", want, got)
	const tick = 0.01
	if cpu, ok := row.Readings.Number(procstats.ProcessCPU); !ok || math.Abs(cpu-stat.CPUTime()) > 2*tick {
		t.Errorf("process %d used %v s (%v), procfs says %v", row.PID, cpu, ok, stat.CPUTime())
	}
	text := testkit.Value(os.ReadFile("/proc/uptime"))(t)
	var uptime float64
	if _, err := fmt.Sscan(string(text), &uptime); err != nil {
		t.Fatal(err)
	}
	most := uptime - tick*float64(stat.Starttime)
	if elapsed, ok := row.Readings.Number(procstats.ProcessElapsed); !ok || elapsed > most+2*tick || elapsed < most-60 {
		t.Errorf("process %d started %v s ago (%v), and now it is %v s", row.PID, elapsed, ok, most)
	}
}

func TestTreeCountsNanoseconds(t *testing.T) {
	tree := treeFor(t, rootsOf(play(t, "idle").Process.Pid), procstats.Select(procstats.ProcessCPU))
	var s procstats.Sample
	collect(&s, tree)
	cpu, ok := s.Processes[0].Readings.Number(procstats.ProcessCPU)
	if ns := time.Duration(cpu * float64(time.Second)); !ok || ns <= 0 || ns%procstats.StartTick == 0 {
		t.Errorf("a process that has started used %v (%v): whole ticks are what stat shows", ns, ok)
	}
}

// TestTreeWhileProcessesEnd kills a process at every point between two reads of it, with its files open and not.
func TestTreeWhileProcessesEnd(t *testing.T) {
	start := func() (*exec.Cmd, *membership, *process) {
		cmd := exec.Command("sleep", "1000")
		must(t, cmd.Start())
		m := newMembership(rootsOf(cmd.Process.Pid))
		m.use(kernel.FileStat, kernel.FileStatm, kernel.FileIO)
		t.Cleanup(func() { noError(t, m.leave()) })
		return cmd, m, m.see(cmd.Process.Pid, 0)
	}
	for _, file := range []kernel.ProcessFile{kernel.FileStat, kernel.FileStatm, kernel.FileIO} {
		for _, keeps := range []bool{true, false} {
			cmd, m, p := start()
			if _, err := m.read(p, file); err != nil || !p.kept[file].IsOpen() {
				t.Fatalf("%v: %v", file, err)
			}
			if !keeps {
				m.maxKept = 0
				_ = m.release(p)
			}
			endOf(t, cmd)
			if _, err := m.read(p, file); !kernel.Gone(err) || !p.dead {
				t.Errorf("%v, open %v: %v, dead %v", file, keeps, err, p.dead)
			}
		}
	}
	cmd, m, p := start()
	endOf(t, cmd)
	if err := m.verify(p); !kernel.Gone(err) {
		t.Errorf("verify: %v", err)
	}
	if q := m.admit(cmd.Process.Pid, 0); q != nil {
		t.Errorf("a process that is gone is admitted: %+v", q.ProcessID)
	}
}

// TestTreeTotalUnderChurn holds, against what wait4(2) says in the end, that no time is ever counted twice, and that
// the total does not fall while children go over into their parents. Trees that are read from later on have nothing of
// what was used before, neither of the live processes nor of those that are reaped meanwhile.
func TestTreeTotalUnderChurn(t *testing.T) {
	cmd := exec.Command("sh", "-c", `for i in 1 2 3 4 5 6 7 8 9 10; do
		for j in 1 2 3 4; do ( n=0; while [ $n -lt 4000 ]; do n=$((n+1)); done; exec true ) & done; wait
	done`)
	must(t, cmd.Start())
	t.Cleanup(func() { endOf(t, cmd) })
	pidfd := pidfdOf(t, cmd.Process.Pid)
	roots, reaped := []int{cmd.Process.Pid}, Reaped{}
	target := Target{FS: kernel.HostFS(), Roots: func() []int { return roots }, Reaped: func() Reaped { return reaped }}
	tree := treeOf(t, target)
	target.Running = true
	type later struct {
		Source
		used, seen float64 // before, and since
	}
	var trees []*later
	var s procstats.Sample
	var last, lastExited float64
	check := func() {
		t.Helper()
		collect(&s, tree)
		total, exited := mustNumber(t, &s, procstats.TreeCPU), mustNumber(t, &s, procstats.TreeCPUExited)
		if total < last || exited < lastExited {
			t.Fatalf("from %v to %v s, exited from %v to %v", last, total, lastExited, exited)
		}
		last, lastExited = total, exited
		checkNumber(t, &s, procstats.TreeCPU, mustNumber(t, &s, procstats.TreeCPULive)+exited+mustNumber(t, &s, procstats.TreeCPUUnattributed))
	}
	for ended := 0; ended <= 0; { // -1 if a signal interrupts it
		check()
		if len(trees) < 20 {
			trees = append(trees, &later{Source: treeOf(t, target), used: last})
		}
		for _, l := range trees {
			collect(&s, l)
			l.seen = mustNumber(t, &s, procstats.TreeCPU)
		}
		var err error
		ended, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
	check()
	seen := last
	must(t, cmd.Wait())
	truth := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	// The kernel keeps microseconds here.
	if seen > truth.Seconds()+1e-5 {
		t.Errorf("%v s were seen before the end, and %v s used in all", seen, truth)
	}
	for i, l := range trees {
		if l.used+l.seen > truth.Seconds()+1e-5 {
			t.Errorf("tree %d: %v s were used before it, and it has seen %v s of %v", i, l.used, l.seen, truth)
		}
	}
	if seen < 0.97*truth.Seconds()-0.02 {
		t.Errorf("%v s were seen of the zombie and what it had waited for, and %v s used in all", seen, truth)
	}
	roots, reaped.CPU = nil, truth
	check()
	checkNumber(t, &s, procstats.TreeCPU, max(seen, truth.Seconds()))
}

func TestTreeCountsZombies(t *testing.T) {
	targets := map[string]func(*testing.T, played) Target{
		"children":  func(_ *testing.T, p played) Target { return rootsOf(p.Process.Pid) },
		"cgroup v1": func(t *testing.T, p played) Target { return inCgroup(t, false, p.Process.Pid, p.child) },
		"cgroup v2": func(t *testing.T, p played) Target { return inCgroup(t, true, p.Process.Pid, p.child) },
	}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			parent := play(t, "parent")
			tree := treeOf(t, target(t, parent))
			var s procstats.Sample
			collect(&s, tree)
			pidfd := pidfdOf(t, parent.child)
			must(t, parent.hold.Close())
			awaitEnd(t, pidfd)
			collect(&s, tree)
			pids := pidsOf(&s)
			if want := slices.Sorted(slices.Values([]int{parent.Process.Pid, parent.child})); !cmp.Equal(pids, want) {
				t.Fatalf("PIDs %v, want %v", pids, want)
			}
			zombie := s.Processes[slices.Index(pids, parent.child)].Readings
			cpu, _ := zombie.Number(procstats.ProcessCPU)
			rss, ok := zombie.Number(procstats.ProcessRSS)
			state, _ := zombie.Get(procstats.ProcessState)
			if text, _ := state.Text(); text != "Z" || cpu <= 0 || rss != 0 || !ok {
				t.Errorf("state %q, CPU %v s, RSS %v (%v)", text, cpu, rss, ok)
			}
		})
	}
}

// inCgroup is a task of processes in a cgroup of one version.
func inCgroup(tb testing.TB, v2 bool, pids ...int) Target {
	tb.Helper()
	cgroup := makeCgroup(tb, v2)
	enter(tb, cgroup.Procs(), pids...)
	return Target{FS: kernel.HostFS(), Cgroup: cgroup}
}

// TestTreeFollowsCgroups holds that members are those of this moment: on v1 the kernel gives a descriptor that is
// read again the old list.
func TestTreeFollowsCgroups(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v2=%v", v2), func(t *testing.T) {
			cgroup := makeCgroup(t, v2)
			dir := cgroup.Procs()
			pids := sleepers(t, 3)
			slices.Sort(pids)
			enter(t, dir, pids...)
			tree := treeOf(t, Target{FS: kernel.HostFS(), Cgroup: cgroup})
			var s procstats.Sample
			check := func(exited float64, want ...int) {
				t.Helper()
				collect(&s, tree)
				testkit.Diff(t, "PIDs", want, pidsOf(&s))
				checkNumber(t, &s, procstats.TreeProcessesExited, exited)
			}
			check(0, pids...)
			nested := filepath.Join(dir, "a", "b")
			must(t, os.MkdirAll(nested, 0o755))
			enter(t, nested, pids[1])
			check(0, pids...)
			enter(t, dir, pids[1])
			check(0, pids...)
			before := mustNumber(t, &s, procstats.TreeCPULive)
			enter(t, filepath.Dir(dir), pids[0])
			check(1, pids[1:]...)
			if sum := mustNumber(t, &s, procstats.TreeCPULive) + mustNumber(t, &s, procstats.TreeCPUExited); sum < before-1e-9 { // rounding
				t.Errorf("the time of the process that left is lost: %v of %v s are known", sum, before)
			}
			enter(t, dir, pids[0])
			check(1, pids...)
		})
	}
}

func TestTreeAllocatesNothing(t *testing.T) {
	everything := procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceTree || m.Source == procstats.SourceIO
	})
	targets := map[string]func(*testing.T) Target{
		"children":                    func(t *testing.T) Target { return rootsOf(sleepers(t, 5)...) },
		"children, nothing kept open": func(t *testing.T) Target { return rootsOf(sleepers(t, 5)...) },
		"children of threads":         func(*testing.T) Target { return rootsOf(os.Getpid()) },
		"cgroup v1":                   func(t *testing.T) Target { return inCgroup(t, false, sleepers(t, 5)...) },
		"cgroup v2": func(t *testing.T) Target {
			target := inCgroup(t, true, sleepers(t, 5)...)
			target.MaxRows = 3
			return target
		},
	}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			where, kept := target(t), defaultMaxKept
			if strings.Contains(name, "nothing kept") {
				kept = 0
			}
			m := newMembership(where)
			m.maxKept = kept
			tree, io := openTree(where, everything, m), openIO(where, everything, m)
			var s procstats.Sample
			sample := func() { collect(&s, tree, io) }
			sample()
			if allocs := testing.AllocsPerRun(20, sample); allocs != 0 {
				t.Errorf("a sample allocates %v times, want 0", allocs)
			}
			if m.keptFiles > kept || kept == 0 && m.keptFiles != 0 {
				t.Errorf("%d files are kept open, at most %d should be", m.keptFiles, kept)
			}
			for _, source := range []Source{tree, io, io} {
				noError(t, source.Close())
			}
			testkit.Equal(t, m.keptFiles, 0, "open files after the last Close")
		})
	}
}
