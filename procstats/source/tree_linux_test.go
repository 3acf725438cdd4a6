// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// procTree writes a captured tree and returns its root.
func procTree(tb testing.TB, archive string) kernel.FS {
	tb.Helper()
	content := testkit.Value(os.ReadFile(filepath.Join("testdata", "proc", archive)))(tb)
	root := kernel.FS{Proc: tb.TempDir()}
	for _, file := range txtar.Parse(content).Files {
		writeProc(tb, root, file.Name, string(file.Data))
	}
	return root
}

func writeProc(tb testing.TB, root kernel.FS, name, content string) {
	tb.Helper()
	writeFiles(tb, root.Proc, map[string]string{name: content})
}

func removeProc(tb testing.TB, root kernel.FS, name string) {
	tb.Helper()
	must(tb, os.RemoveAll(filepath.Join(root.Proc, name)))
}

// treeOf opens the tree source with everything it has.
func treeOf(tb testing.TB, t Target) *treeSource {
	tb.Helper()
	return treeFor(tb, t, procstats.SourceSelection(procstats.SourceTree))
}

func treeFor(tb testing.TB, t Target, sel procstats.Selection) *treeSource {
	tb.Helper()
	tree := openTree(t, sel, nil)
	tb.Cleanup(func() {
		noError(tb, tree.Close())
		testkit.Equal(tb, tree.members.keptFiles, 0, "open files after Close")
	})
	return tree
}

// readings prints readings, one a line: a short form for comparisons.
func printReadings(readings procstats.Readings) []string {
	var lines []string
	for _, r := range readings {
		text := "absent: " + r.Reason()
		if value, ok := r.Number(); ok {
			text = fmt.Sprint(value)
		} else if label, ok := r.Text(); ok {
			text = fmt.Sprintf("%q", label)
		}
		lines = append(lines, r.ID().String()+" "+text)
	}
	return lines
}

func pidsOf(s *procstats.Sample) []int {
	var pids []int
	for _, row := range s.Processes {
		pids = append(pids, row.PID)
	}
	return pids
}

// TestCapturedProcesses holds what is read of captured processes.
func TestCapturedProcesses(t *testing.T) {
	if os.Getpagesize() != 4096 {
		t.Skip("the file counts pages of 4 KiB")
	}
	const archive = "linux-6.18-threads-and-zombie.txtar"
	everything := procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceTree || m.Source == procstats.SourceIO
	})
	target := Target{
		FS:    procTree(t, archive),
		Roots: func() []int { return []int{669} },
		Reaped: func() Reaped {
			return Reaped{CPU: 10 * time.Second, IO: kernel.ProcIO{
				Rchar: 1000, Wchar: 2000, ReadBytes: 3000, WriteBytes: 4000, CancelledWriteBytes: 5000,
			}}
		},
	}
	m := newMembership(target)
	var s procstats.Sample
	tree, io := openTree(target, everything, m), openIO(target, everything, m)
	for _, source := range []Source{tree, io} {
		closing(t, source)
		if d := source.Describe(); !d.Available {
			t.Errorf("%+v", d)
		}
	}
	collect(&s, tree, io)
	for _, id := range []procstats.ID{procstats.TreeRSS, procstats.TreeIORead} {
		if stamp, ok := s.ReadAt(id); !ok || stamp.Mono < s.Mono {
			t.Errorf("%s is stamped %v in a sample of %v", id, stamp.Mono, s.Mono)
		}
	}
	lines := printReadings(s.Task)
	for _, row := range s.Processes {
		lines = append(lines, fmt.Sprintf("process %d %q, start %d, parent %d", row.PID, row.Command, row.Start, row.PPID))
		lines = append(lines, printReadings(row.Readings)...)
	}
	golden(t, "testdata/proc/linux-6.18-threads-and-zombie.golden", []byte(strings.Join(lines, "\n")+"\n"))
}

func TestTreeOfHostileProcesses(t *testing.T) {
	root := procTree(t, "hostile.txtar")
	writeProc(t, root, "104/stat", "104 (sh) S 100 0 0 garbage")
	tree := treeOf(t, Target{FS: root, Roots: func() []int { return []int{100, 100} }})
	var s procstats.Sample
	collect(&s, tree)
	want := []int{100, 101, 103, 104, 106}
	if diff := cmp.Diff(want, pidsOf(&s)); diff != "" {
		t.Fatalf("PIDs (-want +got)\n%s", diff)
	}
	testkit.Equal(t, s.Processes[1].Command, "x) R 1 2 (\ny) S", "comm")
	if !tree.lostChildren() {
		t.Error("101 ignores SIGCHLD, and no note says so")
	}
	r, _ := s.Task.Get(procstats.TreeRSS)
	if r.Present() || !strings.Contains(r.Reason(), "(1 of 5)") {
		t.Errorf("a sum over what could be read is shown as whole: %+v", r)
	}
	checkNumber(t, &s, procstats.TreeProcesses, 4) // 103 is a zombie
	if r, _ := s.Processes[3].Readings.Get(procstats.ProcessCPU); r.Present() || r.Reason() == "" {
		t.Errorf("process 104: %+v", r)
	}
}

// TestTreeWithoutChildrenFiles holds that nothing is summed if the kernel does not list children.
func TestTreeWithoutChildrenFiles(t *testing.T) {
	root := procTree(t, "hostile.txtar")
	removeProc(t, root, "100/task/100/children")
	var s procstats.Sample
	collect(&s, treeOf(t, Target{FS: root, Roots: func() []int { return []int{100} }}))
	if r, _ := s.Task.Get(procstats.TreeCPU); r.Present() || !strings.Contains(r.Reason(), "CONFIG_PROC_CHILDREN") {
		t.Errorf("%+v", r)
	}
}

func checkNumber(tb testing.TB, s *procstats.Sample, id procstats.ID, want float64) {
	tb.Helper()
	const rounding = 1e-9
	if got := mustNumber(tb, s, id); got < want-rounding || got > want+rounding {
		tb.Errorf("%s is %v, want %v", id.String(), got, want)
	}
}

// setCPU rewrites the times in a captured stat, in ticks.
func setCPU(tb testing.TB, root kernel.FS, pid, parent, start, own, children int) {
	tb.Helper()
	line := fmt.Sprintf("%d (sh) S %d 1 1 0 -1 4194304 72 0 0 0 %d 0 %d 0 20 0 1 0 %d 1 1 1 1 1 1 0 0 0 0 0 0 1\n",
		pid, parent, own, children, start)
	writeProc(tb, root, fmt.Sprintf("%d/stat", pid), line)
	writeProc(tb, root, fmt.Sprintf("%d/statm", pid), "1 1 1 1 0 1 0\n")
	writeProc(tb, root, fmt.Sprintf("%d/task/%d/stat", pid, pid), line)
}

func setChildren(tb testing.TB, root kernel.FS, pid int, children string) {
	tb.Helper()
	writeProc(tb, root, fmt.Sprintf("%d/task/%d/children", pid, pid), children)
}

// setPair makes processes 10 and 11, parent and child.
func setPair(tb testing.TB, root kernel.FS) {
	tb.Helper()
	setCPU(tb, root, 10, 1, 100, 0, 0)
	setCPU(tb, root, 11, 10, 101, 0, 0)
	setChildren(tb, root, 10, "11 ")
	setChildren(tb, root, 11, "")
}

// TestTreeClosesTheSum takes a task through the life of its processes and holds that rows, exited and unattributed
// make up the total in every sample, and that no counter falls.
func TestTreeClosesTheSum(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	var reaped Reaped
	tree := treeOf(t, Target{FS: root, Roots: func() []int { return []int{10} }, Reaped: func() Reaped { return reaped }})
	steps := []struct {
		name                                     string
		change                                   func()
		total, live, exited, unattributed, exits float64
	}{
		{"one process", func() {
			setCPU(t, root, 10, 1, 100, 50, 0)
			setChildren(t, root, 10, "")
		}, 0.5, 0.5, 0, 0, 0},
		{"two children", func() {
			setCPU(t, root, 11, 10, 110, 100, 0)
			setCPU(t, root, 12, 10, 120, 7, 0)
			setChildren(t, root, 10, "11 12 ")
			setChildren(t, root, 11, "")
			setChildren(t, root, 12, "")
		}, 1.57, 1.57, 0, 0, 0},
		{"one works on and is reaped, its time lags by a tick", func() {
			removeProc(t, root, "11")
			setCPU(t, root, 10, 1, 100, 50, 99)
			setChildren(t, root, 10, "12 ")
		}, 1.57, 0.57, 1, 0, 1},
		{"one came and went between the samples", func() { setCPU(t, root, 10, 1, 100, 50, 130) }, 1.87, 0.57, 1, 0.3, 1},
		{"the PID of the other is used again", func() {
			setCPU(t, root, 12, 10, 500, 3, 0)
			setCPU(t, root, 10, 1, 100, 60, 140)
			setChildren(t, root, 12, "")
		}, 2.03, 0.63, 1.07, 0.33, 2},
		{"all ended, and the executor reaped the root", func() {
			removeProc(t, root, "10")
			removeProc(t, root, "12")
			reaped.CPU = 2100 * time.Millisecond
		}, 2.1, 0, 1.7, 0.4, 4},
	}
	var s procstats.Sample
	for _, step := range steps {
		step.change()
		collect(&s, tree)
		// A PID that is used again is found in the sample after the one that found the end.
		if strings.Contains(step.name, "used again") {
			collect(&s, tree)
		}
		t.Run(step.name, func(t *testing.T) {
			checkNumber(t, &s, procstats.TreeCPU, step.total)
			checkNumber(t, &s, procstats.TreeCPULive, step.live)
			checkNumber(t, &s, procstats.TreeCPUExited, step.exited)
			checkNumber(t, &s, procstats.TreeCPUUnattributed, step.unattributed)
			checkNumber(t, &s, procstats.TreeProcessesExited, step.exits)
			var rows float64
			for _, row := range s.Processes {
				cpu, _ := row.Readings.Number(procstats.ProcessCPU)
				rows += cpu
			}
			checkNumber(t, &s, procstats.TreeCPU, rows+step.exited+step.unattributed)
		})
	}
}

// TestTreeWithoutWaiting has a parent that ignores SIGCHLD: the kernel forgets its children, and what was seen of them
// is the total.
func TestTreeWithoutWaiting(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	tree := treeOf(t, Target{FS: root, Roots: func() []int { return []int{10} }})
	setCPU(t, root, 10, 1, 100, 50, 0)
	var s procstats.Sample
	for i := range 5 {
		pid := 11 + i
		setCPU(t, root, pid, 10, 110+i, 100, 0)
		setChildren(t, root, pid, "")
		setChildren(t, root, 10, fmt.Sprint(pid, " "))
		collect(&s, tree)
		removeProc(t, root, fmt.Sprint(pid))
		checkNumber(t, &s, procstats.TreeCPU, 0.5+float64(i+1))
	}
}

func TestTreeComparesWithTheCgroup(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	setCPU(t, root, 10, 1, 100, 50, 500)
	setChildren(t, root, 10, "")
	tests := []struct {
		name   string
		cgroup procstats.Cgroup
		total  procstats.Reading
		want   float64 // below 0 if it is not known
	}{
		{"its own", procstats.Cgroup{V2: t.TempDir()}, procstats.NumberReading(procstats.CgroupCPUUsage, 7), 7 - 0.5},
		{
			"shared with others",
			procstats.Cgroup{V2: t.TempDir(), Shared: true},
			procstats.NumberReading(procstats.CgroupCPUUsage, 7), 5.5 - 0.5,
		},
		{"removed", procstats.Cgroup{V2: t.TempDir()}, procstats.AbsentReading(procstats.CgroupCPUUsage, "removed"), -1},
	}
	for _, test := range tests {
		tree := treeFor(t, Target{FS: root, Cgroup: test.cgroup, Roots: func() []int { return []int{10} }},
			procstats.Select(procstats.TreeCPUUnattributed, procstats.CgroupCPUUsage))
		var s procstats.Sample
		s.Task.Put(test.total)
		tree.Collect(&s)
		tree.closeSum(&s)
		if r, _ := s.Task.Get(procstats.TreeCPUUnattributed); test.want < 0 && (r.Present() || r.Reason() == "") {
			t.Errorf("%s: %+v", test.name, r)
		}
		if test.want >= 0 {
			checkNumber(t, &s, procstats.TreeCPUUnattributed, test.want)
		}
	}
}

func TestTreeBoundsRows(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	children := ""
	for pid := 11; pid < 20; pid++ {
		setCPU(t, root, pid, 10, 100+pid, pid, 0)
		setChildren(t, root, pid, "")
		children += fmt.Sprint(pid, " ")
	}
	setCPU(t, root, 10, 1, 100, 0, 0)
	setChildren(t, root, 10, children)
	tree := treeOf(t, Target{FS: root, Roots: func() []int { return []int{10} }, MaxRows: 3})
	var s procstats.Sample
	collect(&s, tree)
	checkRows := func(want ...int) {
		t.Helper()
		if diff := cmp.Diff(want, pidsOf(&s)); diff != "" || s.Omitted != 7 {
			t.Errorf("%d omitted, PIDs (-want +got)\n%s", s.Omitted, diff)
		}
		checkNumber(t, &s, procstats.TreeProcesses, 10)
	}
	checkRows(17, 18, 19)
	setCPU(t, root, 12, 10, 112, 500, 0)
	writeProc(t, root, "14/statm", "5000 5000 1 1 0 1 0\n")
	collect(&s, tree)
	checkNumber(t, &s, procstats.TreeCPULive, 1.35-0.12+5)
	// Who was busiest since the last sample, then who has most memory, then the lowest PID.
	checkRows(10, 12, 14)
}

func TestTreeWithoutProcesses(t *testing.T) {
	tests := []struct {
		name      string
		target    Target
		available bool
		reason    string // of tree_processes; empty where it is 0
	}{
		{"neither cgroup nor roots", Target{FS: kernel.FS{Proc: t.TempDir()}}, false, "neither a cgroup"},
		{"no procfs", Target{FS: kernel.FS{Proc: filepath.Join(t.TempDir(), "proc")}, Roots: func() []int { return nil }}, false, ""},
		{"all have ended", Target{FS: kernel.FS{Proc: t.TempDir()}, Roots: func() []int { return []int{10} }}, true, ""},
		{"the cgroup is gone", Target{FS: kernel.FS{Proc: t.TempDir()}, Cgroup: procstats.Cgroup{V2: filepath.Join(t.TempDir(), "x")}}, true, ""},
		{"a shared cgroup alone", Target{FS: kernel.FS{Proc: t.TempDir()}, Cgroup: procstats.Cgroup{V2: t.TempDir(), Shared: true}}, false, "neither a cgroup"},
	}
	for _, test := range tests {
		tree := treeOf(t, test.target)
		var s procstats.Sample
		collect(&s, tree)
		if len(s.Task) != 25 || len(s.Processes) != 0 {
			t.Errorf("%s: %d readings and %d rows", test.name, len(s.Task), len(s.Processes))
		}
		r, _ := s.Task.Get(procstats.TreeProcesses)
		if n, ok := r.Number(); ok != (test.reason == "") || n != 0 || !strings.Contains(r.Reason(), test.reason) {
			t.Errorf("%s: %+v, want the reason %q", test.name, r, test.reason)
		}
		if d := tree.Describe(); d.Available != test.available || d.Available != (d.Reason == "") {
			t.Errorf("%s: %+v", test.name, d)
		}
	}
}

func TestTreeListsNestedCgroups(t *testing.T) {
	root, dir := kernel.FS{Proc: t.TempDir()}, t.TempDir()
	for pid := 10; pid < 14; pid++ {
		setCPU(t, root, pid, 1, 100+pid, 1, 0)
	}
	list := func(group, pids string) {
		t.Helper()
		writeProc(t, kernel.FS{Proc: dir}, filepath.Join(group, "cgroup.procs"), pids)
	}
	list("", "10\n")
	tree := treeOf(t, Target{FS: root, Cgroup: procstats.Cgroup{V1: map[string]string{"pids": dir}}})
	var s procstats.Sample
	check := func(want ...int) {
		t.Helper()
		collect(&s, tree)
		testkit.Diff(t, "PIDs", want, pidsOf(&s))
	}
	check(10)
	list("a", "11\n10\n")
	list("a/b", "12\n")
	list("a/no-processes", "")
	check(10, 11, 12)
	list("a/b", "12\n0\n13\n")
	check(10, 11, 12, 13)
	checkNumber(t, &s, procstats.TreeProcesses, 5)
	if r, _ := s.Task.Get(procstats.TreeRSS); r.Present() || !strings.Contains(r.Reason(), "PID namespace") {
		t.Errorf("with a process that has no PID here: %+v", r)
	}
	list("a/b", "")
	check(10, 11)
	checkNumber(t, &s, procstats.TreeProcessesExited, 2)
	checkNumber(t, &s, procstats.TreeCPUExited, 0.02)
}
