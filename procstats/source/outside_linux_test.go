// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// enclosed puts processes into cgroups of their own in every hierarchy, as an executor would that is their parent.
func enclosed(t *testing.T, pids ...int) Target {
	t.Helper()
	cgroup := makeCgroups(t)
	for _, dir := range cgroup.V1 {
		enter(t, dir, pids...)
	}
	if cgroup.V2 != "" {
		enter(t, cgroup.V2, pids...)
	}
	return Target{FS: kernel.HostFS(), Cgroup: cgroup, Roots: func() []int { return pids }, Parent: os.Getpid()}
}

// TestProcessesThatLeave moves a process of a task out of its cgroup, in one hierarchy at a time, and holds that it
// stays one of the task's and that the account is named that the cgroup has none of any more.
func TestProcessesThatLeave(t *testing.T) {
	hierarchies := makeCgroups(t)
	tests := map[string]procstats.ID{"cpuacct": procstats.TreeLeftCPU, "memory": procstats.TreeLeftMemory, "blkio": procstats.TreeLeftIO}
	for controller, account := range tests {
		t.Run(controller, func(t *testing.T) {
			pids := sleepers(t, 2)
			target := enclosed(t, pids...)
			dir := target.Cgroup.V1[controller]
			if hierarchies.V1[controller] == "" {
				dir = target.Cgroup.V2 // pure v2: one hierarchy has all accounts
			}
			tree := treeOf(t, target)
			var s procstats.Sample
			settle := func(outside float64) {
				t.Helper()
				for range 2 * len(pids) { // each process, each in both ways
					collect(&s, tree)
				}
				checkNumber(t, &s, procstats.TreeOutside, outside)
				checkNumber(t, &s, procstats.TreeProcesses, 2)
			}
			settle(0)
			checkNumber(t, &s, account, 0)
			enter(t, filepath.Dir(dir), pids[1])
			settle(1)
			checkNumber(t, &s, account, 1)
			enter(t, dir, pids[1])
			settle(0)
			checkNumber(t, &s, account, 1)
		})
	}
}

// TestLeaderlessOutside moves a process out of its cgroup whose main thread ends before or after, one hierarchy at a
// time: of an ended thread the kernel says that it is where it ended (v2), or in the root (v1).
func TestLeaderlessOutside(t *testing.T) {
	hierarchies := makeCgroups(t)
	dirOf := func(c procstats.Cgroup, hierarchy string) string {
		if hierarchy == "" {
			return c.V2
		}
		return c.V1[hierarchy]
	}
	for _, hierarchy := range append(slices.Sorted(maps.Keys(hierarchies.V1)), "") {
		for _, ends := range []string{"before", "outside"} {
			t.Run(cmp.Or(hierarchy, "v2")+"/"+ends, func(t *testing.T) {
				if dirOf(hierarchies, hierarchy) == "" {
					t.Skip("no such hierarchy here")
				}
				p := play(t, "leaderless")
				target := enclosed(t, p.Process.Pid)
				t.Cleanup(func() { endOf(t, p.Cmd) }) // no cgroup.procs lists it, from which it could be moved away
				dir, tree := dirOf(target.Cgroup, hierarchy), treeOf(t, target)
				var s procstats.Sample
				checkOutside := func(want float64) {
					t.Helper()
					for range 4 {
						collect(&s, tree)
					}
					checkNumber(t, &s, procstats.TreeOutside, want)
					checkNumber(t, &s, procstats.TreeProcesses, 1)
				}
				if ends == "before" {
					endMain(t, p)
				}
				checkOutside(0)
				enter(t, filepath.Dir(dir), p.Process.Pid)
				if ends == "outside" {
					endMain(t, p)
				}
				checkOutside(1)
				enter(t, dir, p.Process.Pid)
				checkOutside(0)
			})
		}
	}
}

// TestChildOutside has a child that left the cgroup before any sample: only its parent knows it.
func TestChildOutside(t *testing.T) {
	parent := play(t, "parent")
	target := enclosed(t, parent.Process.Pid, parent.child)
	target.Roots = func() []int { return []int{parent.Process.Pid} }
	enter(t, filepath.Dir(target.Cgroup.Procs()), parent.child)
	tree := treeOf(t, target)
	var s procstats.Sample
	for range 2 {
		collect(&s, tree)
	}
	checkNumber(t, &s, procstats.TreeOutside, 1)
	checkNumber(t, &s, procstats.TreeProcesses, 2)
}

// TestForeignProcess has processes in the cgroup that are no descendants of the executor: the time that they had used
// before is not the task's, their time since is also for a second reader, and when one leaves it is the task's no more.
func TestForeignProcess(t *testing.T) {
	busy := play(t, "busy")
	target := enclosed(t, sleepers(t, 1)...)
	target.Parent = 1 << 30 // no PID
	tree := treeOf(t, target)
	var s procstats.Sample
	collect(&s, tree)
	enter(t, target.Cgroup.Procs(), busy.Process.Pid)
	collect(&s, tree)
	checkNumber(t, &s, procstats.TreeProcesses, 2)
	if used := mustNumber(t, &s, procstats.TreeCPU); used > 0.25 {
		t.Errorf("%v s are the task's, though nearly all was used before", used)
	}

	row := func(s *procstats.Sample) *procstats.Readings {
		for i := range s.Processes {
			if s.Processes[i].PID == busy.Process.Pid {
				return &s.Processes[i].Readings
			}
		}
		t.Fatal("it has no row")
		return nil
	}
	earlier := s.Clone()
	row(earlier).Put(procstats.NumberReading(procstats.ProcessCPU, 0.125)) // as if it had worked on
	second := treeOf(t, target)
	second.continueFrom(earlier, func(procstats.ProcessID) bool { return true })
	var again procstats.Sample
	collect(&again, second)
	if cpu, _ := row(&again).Number(procstats.ProcessCPU); cpu < 0.125 || cpu > 0.25 {
		t.Errorf("it has used %v s since it joined, want what the first reader has seen", cpu)
	}

	enter(t, filepath.Dir(target.Cgroup.Procs()), busy.Process.Pid)
	collect(&s, tree)
	checkNumber(t, &s, procstats.TreeProcesses, 1)
	checkNumber(t, &s, procstats.TreeOutside, 0)
}

// TestOutsideGoesOn has a second reader go on with what the first one has counted, and count no process twice.
func TestOutsideGoesOn(t *testing.T) {
	const left, joined = procstats.TreeLeftCPU, procstats.TreeJoined
	accountDir := func(c procstats.Cgroup) string { return cmp.Or(c.V1["cpuacct"], c.V2) }
	leaves := func(t *testing.T, c procstats.Cgroup, pids ...int) { enter(t, filepath.Dir(accountDir(c)), pids...) }
	firstLeaves := func(t *testing.T, c procstats.Cgroup, pids []int) { leaves(t, c, pids[0]) }
	tests := map[string]struct {
		id      procstats.ID
		foreign bool                                               // the processes are another program's
		before  func(t *testing.T, c procstats.Cgroup, pids []int) // what happens before the first reader looks
		away    func(t *testing.T, c procstats.Cgroup, pids []int) // while nobody does
		earlier func(s *procstats.Sample)                          // changes what the first one hands over
		want    float64
	}{
		"still outside": {id: left, before: firstLeaves, want: 1},
		"inside again": {
			id: left, before: firstLeaves,
			away: func(t *testing.T, c procstats.Cgroup, pids []int) { enter(t, accountDir(c), pids[0]) }, want: 1,
		},
		"had ended": {id: left, earlier: func(s *procstats.Sample) { s.SetNumber(left, 3) }, want: 3},
		"another one left": {
			id: left, before: firstLeaves,
			away: func(t *testing.T, c procstats.Cgroup, pids []int) { leaves(t, c, pids[1]) }, want: 2,
		},
		"without its row": {
			id: left, before: firstLeaves,
			earlier: func(s *procstats.Sample) { s.Processes, s.Omitted = nil, 2 }, want: 1,
		},
		"joined":       {id: joined, foreign: true, want: 2},
		"CPU time":     {id: procstats.TreeOutsideCPU, earlier: func(s *procstats.Sample) { s.SetNumber(procstats.TreeOutsideCPU, 7.5) }, want: 7.5},
		"nothing left": {id: left, want: 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pids := sleepers(t, 2)
			target := enclosed(t, pids...)
			if test.foreign {
				target.Parent = 1 << 30 // no PID
			}
			look := func(tree *treeSource, s *procstats.Sample) {
				for range 2 * len(pids) {
					collect(s, tree)
				}
			}
			if test.before != nil {
				test.before(t, target.Cgroup, pids)
			}
			var first, second procstats.Sample
			look(treeOf(t, target), &first)
			if test.earlier != nil {
				test.earlier(&first)
			}
			if test.away != nil {
				test.away(t, target.Cgroup, pids)
			}
			tree := treeOf(t, target)
			tree.continueFrom(&first, func(procstats.ProcessID) bool { return true })
			look(tree, &second)
			checkNumber(t, &second, test.id, test.want)
		})
	}
}
