// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// quotaTree is a hierarchy with the groups /, /batch and /batch/task, of version 1 or 2.
type quotaTree struct {
	t       *testing.T
	version int
	root    string
}

func newQuotaTree(t *testing.T, version int) *quotaTree {
	tree := &quotaTree{t, version, t.TempDir()}
	for _, group := range []string{"/", "/batch", "/batch/task"} {
		tree.set(group, 0, 0, 0)
	}
	line := "30 20 0:1 / %s rw - cgroup2 cgroup2 rw\n"
	if version == 1 {
		line = "30 20 0:1 / %s rw - cgroup cgroup rw,cpu\n"
	}
	tree.write("proc/self/mountinfo", fmt.Sprintf(line, filepath.Join(tree.root, "cgroup")))
	return tree
}

func (tree *quotaTree) write(name, text string) {
	writeFiles(tree.t, tree.root, map[string]string{name: text})
}

// set writes what a group has: its quota in percent of a core, 0 for none, and what it throttled.
func (tree *quotaTree) set(group string, percent, periods, seconds int) {
	dir := filepath.Join("cgroup", group)
	if tree.version == 1 {
		quota := percent * 1000
		if quota == 0 {
			quota = -1
		}
		tree.write(dir+"/cpu.cfs_quota_us", fmt.Sprintln(quota))
		tree.write(dir+"/cpu.cfs_period_us", "100000\n")
		tree.write(dir+"/cpu.stat", fmt.Sprintf("nr_periods 9\nnr_throttled %d\nthrottled_time %d\n", periods, seconds*1e9))
		return
	}
	quota := fmt.Sprint(percent * 1000)
	if percent == 0 {
		quota = "max"
	}
	tree.write(dir+"/cpu.max", quota+" 100000\n")
	tree.write(dir+"/cpu.stat", fmt.Sprintf("usage_usec 1\nnr_periods 9\nnr_throttled %d\nthrottled_usec %d\n", periods, seconds*1_000_000))
}

func (tree *quotaTree) target() Target {
	dir := filepath.Join(tree.root, "cgroup/batch/task")
	c := procstats.Cgroup{V2: dir}
	if tree.version == 1 {
		c = procstats.Cgroup{V1: map[string]string{"cpu": dir}}
	}
	return Target{FS: kernel.FS{Proc: filepath.Join(tree.root, "proc")}, Cgroup: c}
}

// checkLater opens the groups again while the task runs, as a reader beside the first one does: it reads the same.
func checkLater(t *testing.T, target Target, first *Collector, read *procstats.Sample) {
	t.Helper()
	target.Before = first.Before()
	later := Open(target, first.Selection())
	closing(t, later)
	var s procstats.Sample
	later.Collect(&s)
	testkit.Diff(t, "another reader differs", read.Task, s.Task, cmp.AllowUnexported(procstats.Reading{}))
	testkit.Diff(t, "counters of another reader begin elsewhere", target.Before, later.Before())
}

// TestCPUQuotasAbove sets quotas on groups at any time, and reads what they cost the task since its start.
func TestCPUQuotasAbove(t *testing.T) {
	type group struct {
		path                      string
		percent, periods, seconds int
	}
	tests := []struct {
		name            string
		before, during  []group
		cores           float64 // 0 for none
		periods, second float64
		throttler       string
	}{
		{name: "no quota"},
		{name: "its own", before: []group{{"/batch/task", 50, 1, 1}}, during: []group{{"/batch/task", 50, 9, 9}}, cores: 0.5},
		{
			name: "of its parent, which throttled before", before: []group{{"/batch", 50, 100, 40}}, during: []group{{"/batch", 50, 107, 42}},
			cores: 0.5, periods: 7, second: 2, throttler: "/batch",
		},
		{
			name: "of the top, as in a container", before: []group{{"/", 150, 0, 0}}, during: []group{{"/", 150, 3, 4}},
			cores: 1.5, periods: 3, second: 4, throttler: "/",
		},
		{
			name: "the lowest does not throttle", before: []group{{"/batch", 50, 0, 0}, {"/", 70, 0, 0}},
			during: []group{{"/batch", 50, 1, 1}, {"/", 70, 8, 5}}, cores: 0.5, periods: 9, second: 6, throttler: "/",
		},
		{
			name: "set while it runs", before: []group{{"/batch", 0, 10, 10}}, during: []group{{"/batch", 20, 12, 11}},
			cores: 0.2, periods: 2, second: 1, throttler: "/batch",
		},
	}
	for _, version := range []int{1, 2} {
		for _, test := range tests {
			t.Run(fmt.Sprintf("v%d, %s", version, test.name), func(t *testing.T) {
				tree := newQuotaTree(t, version)
				for _, g := range test.before {
					tree.set(g.path, g.percent, g.periods, g.seconds)
				}
				c := Open(tree.target(), procstats.Select(procstats.CgroupCPUQuotaEffective,
					procstats.CgroupCPUAncestorThrottledPeriods, procstats.CgroupCPUAncestorThrottled))
				closing(t, c)
				for _, g := range test.during {
					tree.set(g.path, g.percent, g.periods, g.seconds)
				}
				var s procstats.Sample
				c.Collect(&s)
				checkLater(t, tree.target(), c, &s)
				cores, set := s.Task.Number(procstats.CgroupCPUQuotaEffective)
				periods, okPeriods := s.Task.Number(procstats.CgroupCPUAncestorThrottledPeriods)
				seconds, okSeconds := s.Task.Number(procstats.CgroupCPUAncestorThrottled)
				if set != (test.cores > 0) || cores != test.cores {
					t.Errorf("quota %v (%v), want %v", cores, set, test.cores)
				}
				if !okPeriods || !okSeconds || periods != test.periods || seconds != test.second {
					t.Errorf("throttled in %v periods for %v s, want %v, %v", periods, seconds, test.periods, test.second)
				}
				testkit.Equal(t, c.CPUThrottler(), test.throttler, "throttled by")
				for _, g := range test.during { // taken away: what they had counted stays
					tree.set(g.path, 0, g.periods+1, g.seconds+1)
				}
				c.Collect(&s)
				c.Collect(&s)
				if later, _ := s.Task.Number(procstats.CgroupCPUAncestorThrottled); later < seconds {
					t.Errorf("fell from %v to %v", seconds, later)
				}
			})
		}
	}
}

// TestCPUQuotasBesideVersion1 gives a task a group of version 2 only, where version 1 has the quotas.
func TestCPUQuotasBesideVersion1(t *testing.T) {
	tree := newQuotaTree(t, 2)
	tree.write("proc/self/mountinfo", fmt.Sprintf("30 20 0:1 / %s rw - cgroup2 cgroup2 rw\n31 20 0:2 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
		filepath.Join(tree.root, "cgroup")))
	c := Open(tree.target(), procstats.Select(procstats.CgroupCPUQuotaEffective, procstats.CgroupCPUAncestorThrottled))
	closing(t, c)
	var s procstats.Sample
	c.Collect(&s)
	for _, id := range []procstats.ID{procstats.CgroupCPUQuotaEffective, procstats.CgroupCPUAncestorThrottled} {
		if r, _ := s.Task.Get(id); r.Present() || r.Reason() == procstats.ReasonNoLimit {
			t.Errorf("%s says that no group above throttles", id)
		}
	}
}

// TestCPUQuotasInherited has a task without a cgroup of its own: the quotas of its executor's hold it back.
func TestCPUQuotasInherited(t *testing.T) {
	for version, file := range map[int]string{1: "4:cpu:/batch/task\n", 2: "0::/batch/task\n"} {
		for _, throttler := range []string{"/batch/task", "/batch"} {
			t.Run(fmt.Sprintf("v%d, %s", version, throttler), func(t *testing.T) {
				tree := newQuotaTree(t, version)
				tree.write("proc/77/cgroup", file)
				tree.set(throttler, 20, 50, 30)
				target := tree.target()
				target.Cgroup, target.Parent = procstats.Cgroup{}, 77
				c := Open(target, procstats.Select(procstats.CgroupCPUQuotaEffective,
					procstats.CgroupCPUInheritedQuota, procstats.CgroupCPUInheritedThrottled))
				closing(t, c)
				tree.set(throttler, 20, 53, 32)
				var s procstats.Sample
				c.Collect(&s)
				cores, _ := s.Task.Number(procstats.CgroupCPUInheritedQuota)
				seconds, _ := s.Task.Number(procstats.CgroupCPUInheritedThrottled)
				if cores != 0.2 || seconds != 2 || c.CPUThrottler() != throttler {
					t.Errorf("%v cores, throttled for %v s by %q; want 0.2, 2, %q", cores, seconds, c.CPUThrottler(), throttler)
				}
				if r, _ := s.Task.Get(procstats.CgroupCPUQuotaEffective); r.Present() {
					t.Errorf("%s is that of a group of its own", procstats.CgroupCPUQuotaEffective)
				}
			})
		}
	}
}
