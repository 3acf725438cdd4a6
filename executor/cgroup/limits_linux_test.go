// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// limit finds one of the limits that hold.
func (o *outcome) limit(t *testing.T, name string) record.Limit {
	t.Helper()
	i := slices.IndexFunc(o.Limits, func(l record.Limit) bool { return l.Name == name })
	if i < 0 {
		t.Errorf("no limit %s in %+v", name, o.Limits)
		return record.Limit{}
	}
	return o.Limits[i]
}

// holds asserts what is asked for, what holds, and in which folder ("" for any, "own" for the task's).
func (o *outcome) holds(t *testing.T, name string, requested, effective float64, where string) {
	t.Helper()
	l := o.limit(t, name)
	switch {
	case l.Requested == nil || *l.Requested != requested:
		t.Errorf("%s: asked for %v, want %v", name, l.Requested, requested)
	case l.Effective == nil || *l.Effective != effective:
		t.Errorf("%s: %v holds, want %v", name, l.Effective, effective)
	case where == "own" && !slices.Contains((&Group{Cgroup: o.Group}).Folders(), l.Where), where != "own" && where != "" && l.Where != where:
		t.Errorf("%s: the limit of %s, want of %s", name, l.Where, where)
	}
}

func (o *outcome) shows(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		got[name] = o.Files[name]
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the kernel's files (-want +got):\n%s", diff)
	}
}

func TestSetLimits(t *testing.T) {
	t.Parallel()
	needRoot(t)
	limits := &proto.Limits{
		MemoryMaxBytes: new(int64(100<<20 + 1)), CpuCores: new(0.5), CpuWeight: new(int64(50)), PidsMax: new(int64(20)), Cpuset: "0",
	}
	needController(t, "memory")
	needController(t, "cpuset")
	v2, swap := version(t, "memory") == 2, hasSwapLimit(t)
	if swap {
		limits.MemorySwapMaxBytes = new(int64(1 << 20))
	}
	if v2 {
		limits.MemoryHighBytes, limits.MemoryOomGroup = new(int64(80<<20)), new(true)
	}
	o := execute(t, plan{Limits: limits, Parent: newPath(t, "/limits")}, 0, "/")
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	o.isIn(t)
	o.holds(t, "cgroup_memory_max_bytes", 100<<20+1, 100<<20, "own") // rounded to whole pages
	o.holds(t, "cgroup_cpu_quota_cores", 0.5, 0.5, "own")
	o.holds(t, "cgroup_pids_max", 20, 20, "own")
	o.holds(t, "cpuset.cpus", 1, 1, "")
	if l := o.limit(t, "cpuset.cpus"); l.RequestedText != "0" || l.EffectiveText != "0" {
		t.Errorf("cpuset %+v", l)
	}
	want := map[string]string{"pids.max": "20", "cpuset.cpus": "0"}
	if v2 {
		o.holds(t, "cgroup_memory_high_bytes", 80<<20, 80<<20, "own")
		o.holds(t, "memory.oom.group", 1, 1, "own")
		want["memory.max"], want["memory.high"], want["memory.oom.group"] = "104857600", "83886080", "1"
	} else {
		want["memory.limit_in_bytes"] = "104857600"
	}
	if version(t, "cpu") == 2 {
		o.holds(t, "cgroup_cpu_weight", 50, 50, "own")
		want["cpu.max"], want["cpu.weight"] = "50000 100000", "50"
	} else {
		o.holds(t, "cgroup_cpu_shares", 512, 512, "own")
		want["cpu.shares"], want["cpu.cfs_quota_us"], want["cpu.cfs_period_us"] = "512", "50000", "100000"
	}
	switch {
	case swap && v2:
		o.holds(t, "cgroup_memory_swap_max_bytes", 1<<20, 1<<20, "own")
		want["memory.swap.max"] = "1048576"
	case swap:
		o.holds(t, "memory.memsw.limit_in_bytes", 101<<20+1, 101<<20, "own")
		want["memory.memsw.limit_in_bytes"] = "105906176"
	}
	o.shows(t, want)
}

// TestSetSlowQuota needs a longer period than the kernel's usual one.
func TestSetSlowQuota(t *testing.T) {
	t.Parallel()
	needRoot(t)
	o := execute(t, plan{Empty: true, Limits: &proto.Limits{CpuCores: new(0.005)}, Parent: newPath(t, "/slow")}, 0, "/")
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	o.holds(t, "cgroup_cpu_quota_cores", 0.005, 0.005, "own")
	if version(t, "cpu") == 2 {
		o.shows(t, map[string]string{"cpu.max": "5000 1000000"})
	} else {
		o.shows(t, map[string]string{"cpu.cfs_quota_us": "5000", "cpu.cfs_period_us": "1000000"})
	}
}

// TestSetLimitsBelowLowerOnes shows the limit of the group above, whether another was requested or not.
func TestSetLimitsBelowLowerOnes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needController(t, "memory")
	path := newPath(t, "/low")
	points := roots(t)
	dir := func(controller string) string { return filepath.Join(cmp.Or(points[controller], points[""]), path) }
	set := func(controller, file, value string) {
		t.Helper()
		must(t, write(dir(controller), file, value))
	}
	if roots(t)[""] != "" {
		enableInRoot(t)
	}
	if version(t, "memory") == 2 {
		set("memory", "memory.max", "67108864")
		set("memory", "memory.high", "33554432")
	} else {
		set("memory", "memory.limit_in_bytes", "67108864")
	}
	if version(t, "cpu") == 2 {
		set("cpu", "cpu.max", "25000 100000")
	} else {
		set("cpu", "cpu.cfs_quota_us", "25000")
	}
	set("pids", "pids.max", "50")
	asked := &proto.Limits{MemoryMaxBytes: new(int64(100 << 20)), CpuCores: new(0.5), PidsMax: new(int64(60))}
	o := execute(t, plan{Limits: asked, Parent: path}, 0, "/")
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	o.holds(t, "cgroup_memory_max_bytes", 100<<20, 64<<20, dir("memory"))
	o.holds(t, "cgroup_cpu_quota_cores", 0.5, 0.25, dir("cpu"))
	o.holds(t, "cgroup_pids_max", 60, 50, dir("pids"))
	o = execute(t, plan{Parent: path}, 0, "/")
	for _, name := range []string{"cgroup_memory_max_bytes", "cgroup_cpu_quota_cores", "cgroup_pids_max"} {
		if l := o.limit(t, name); l.Requested != nil || l.Effective == nil {
			t.Errorf("%s, not requested: %+v", name, l)
		}
	}
	if version(t, "memory") == 2 {
		if l := o.limit(t, "cgroup_memory_high_bytes"); l.Where != dir("memory") {
			t.Errorf("memory.high: %+v", l)
		}
	}
}

// TestLimitsThatCannotBeHeld are errors that say what to do.
func TestLimitsThatCannotBeHeld(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needController(t, "memory")
	v2, pids := version(t, "memory") == 2, version(t, "pids")
	one := new(int64(1))
	for _, test := range []struct {
		name   string
		limits *proto.Limits
		skip   bool
		want   string
	}{
		{"cpuset of others", &proto.Limits{Cpuset: "4000"}, false, "cpuset 4000 cannot be applied here: "},
		{"no such device", &proto.Limits{Io: []*proto.IOLimit{{Device: "250:250", ReadBytesPerSecond: one}}}, false, "no such block device (lsblk lists"},
		{"memory.high", &proto.Limits{MemoryHighBytes: new(int64(1 << 20))}, v2, "cgroup v1 has no such limit; use the hard limit"},
		{"oom group", &proto.Limits{MemoryOomGroup: new(true)}, v2, "cgroup v1 has no such limit"},
		{"swap alone", &proto.Limits{MemorySwapMaxBytes: one}, v2 || !hasSwapLimit(t), "give a memory limit too"},
		{"one process", &proto.Limits{PidsMax: one}, pids == 2, "the minimum on cgroup v1 is 2"},
		{"no group", &proto.Limits{CpuCores: new(1.0)}, false, "CPU quota of 1.00 cores cannot be applied here: the task has no cgroup"},
	} {
		if test.skip || test.limits.Cpuset != "" && version(t, "cpuset") == 0 {
			continue
		}
		p := plan{Limits: test.limits, Parent: newPath(t, "/no")}
		if test.name == "no group" {
			p.Before, p.Parent = []confine.Step{confine.ReadOnlyCgroups}, ""
		}
		o := execute(t, p, 0, "/")
		if !strings.Contains(o.Error, test.want) || !o.Refused && test.name != "no such device" {
			t.Errorf("%s: %q (refused %v), want %q", test.name, o.Error, o.Refused, test.want)
		}
	}
}

func TestSetIOLimits(t *testing.T) {
	t.Parallel()
	needRoot(t)
	device := wholeDevice(t)
	needController(t, "io")
	limits := &proto.Limits{Io: []*proto.IOLimit{{Device: device, WriteBytesPerSecond: new(int64(1 << 20)), ReadOperationsPerSecond: new(int64(50))}}}
	o := execute(t, plan{Limits: limits, Parent: newPath(t, "/io")}, 0, "/")
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	if version(t, "io") == 2 {
		o.holds(t, "io.max "+device+" wbps", 1<<20, 1<<20, "own")
		o.holds(t, "io.max "+device+" riops", 50, 50, "own")
		o.shows(t, map[string]string{"io.max": device + " rbps=max wbps=1048576 riops=50 wiops=max"})
		return
	}
	o.holds(t, "blkio.throttle.write_bps_device "+device, 1<<20, 1<<20, "own")
	o.shows(t, map[string]string{
		"blkio.throttle.write_bps_device": device + " 1048576", "blkio.throttle.read_iops_device": device + " 50",
	})
	if !noted(o.Notes, "writes through the page cache") {
		t.Errorf("notes %q", o.Notes)
	}
}

func TestLimitPartition(t *testing.T) {
	needRoot(t)
	needController(t, "io")
	partitions, err := filepath.Glob("/sys/class/block/*/partition")
	if err != nil || len(partitions) == 0 {
		t.Skip("this machine has no partitions")
	}
	number := testkit.Value(os.ReadFile(filepath.Join(filepath.Dir(partitions[0]), "dev")))(t)
	limits := &proto.Limits{Io: []*proto.IOLimit{{Device: strings.TrimSpace(string(number)), ReadBytesPerSecond: new(int64(1))}}}
	o := execute(t, plan{Limits: limits, Parent: newPath(t, "/part")}, 0, "/")
	if !strings.Contains(o.Error, "it is a partition") {
		t.Errorf("%q", o.Error)
	}
}

// wholeDevice is the number of a disk.
func wholeDevice(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/sys/block/[vs]d*/dev", "/sys/block/nvme*/dev", "/sys/block/loop0/dev"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			continue
		}
		number := testkit.Value(os.ReadFile(files[0]))(t)
		return strings.TrimSpace(string(number))
	}
	t.Skip("this machine has no disk")
	return ""
}

func needController(t *testing.T, controller string) {
	t.Helper()
	if version(t, controller) == 0 {
		t.Skipf("this kernel has no %s controller, or it is not mounted", controller)
	}
}

// hasSwapLimit reports whether the kernel accounts swap.
func hasSwapLimit(t *testing.T) bool {
	t.Helper()
	points := roots(t)
	if points["memory"] != "" {
		_, err := os.Stat(filepath.Join(points["memory"], swapLimitV1))
		return err == nil
	}
	enableInRoot(t)
	_, err := os.Stat(filepath.Join(points[""], strings.TrimPrefix(newPath(t, "/swap"), "/"), "memory.swap.max"))
	return err == nil
}

// enableInRoot has the root of v2 hand its controllers on.
func enableInRoot(t *testing.T) {
	t.Helper()
	for _, controller := range v2Controllers(true) {
		if version(t, controller) != 2 {
			continue
		}
		if err := write(roots(t)[""], subtreeControl, "+"+controller); err != nil {
			t.Skipf("controllers are not delegated here: %v", err)
		}
	}
}
