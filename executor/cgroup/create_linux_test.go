// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// isIn reports whether /proc/PID/cgroup says that a process is where the groups are.
func (o *outcome) isIn(t *testing.T) {
	t.Helper()
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	for controller, dir := range o.Group.V1 {
		path := pathWithin(dir, mounts)
		if !strings.Contains(o.Task, controller+":"+path+"\n") && !strings.Contains(o.Task, controller+",cpuacct:"+path+"\n") {
			t.Errorf("%s: the task is not in %s but in\n%s", controller, path, o.Task)
		}
	}
	if o.Group.V2 != "" && !strings.Contains(o.Task, "0::"+pathWithin(o.Group.V2, mounts)+"\n") {
		t.Errorf("the task is not in %s but in\n%s", o.Group.V2, o.Task)
	}
}

func (o *outcome) has(controller string) bool {
	g := &Group{Cgroup: o.Group}
	if g.V1[controller] != "" {
		return true
	}
	// The group is gone by now; those of its parent that it was given are the same.
	return g.V2 != "" && slices.Contains(readWords(filepath.Dir(g.V2), subtreeControl), controller)
}

func noted(notes []string, words string) bool {
	return slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, words) })
}

// pathWithin is a folder's path within its hierarchy.
func pathWithin(dir string, mounts []kernel.CgroupMount) string {
	for _, m := range mounts {
		if below, ok := strings.CutPrefix(dir, strings.TrimSuffix(m.Point, "/")); ok && (below == "" || below[0] == '/') {
			return filepath.Join("/", below)
		}
	}
	return dir
}

// TestCreateInRoot makes the groups of a process that is in the root of v2 and may do everything.
func TestCreateInRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	kind := layout(t)
	o := execute(t, plan{}, 0, "/")
	all := version(t, "memory") > 0
	if o.Error != "" || (len(o.Notes) == 0) != all {
		t.Fatalf("%s, notes: %q", o.Error, o.Notes)
	}
	o.isIn(t)
	testkit.Equal(t, o.Group.Layout(), kind, "layout")
	testkit.Equal(t, o.Place, map[string]Placement{"v1": Nested, "hybrid": Nested, "v2": Sibling}[kind], "placed")
	_, err := os.Stat(filepath.Join(roots(t)["cpu"], realtimeFile))
	for controller, want := range map[string]bool{"memory": true, "cpu": err != nil, "pids": true} {
		if o.has(controller) != (want && version(t, controller) > 0) {
			t.Errorf("%s controller: want %v in %+v", controller, want, o.Group)
		}
	}
}

// TestRealtime starts a task that has a real-time priority, and may have: no group that refuses it is used. It has the
// machine to itself: ordinary processes that it preempts while they end stay in their groups for long.
func TestRealtime(t *testing.T) {
	needRoot(t)
	if layout(t) == "v2" {
		t.Skip("a group of version 2 with the cpu controller says nothing of real time")
	}
	o, without := execute(t, plan{Realtime: true}, 0, "/"), execute(t, plan{}, 0, "/")
	if o.Error != "" || !slices.Equal(o.Notes, without.Notes) {
		t.Errorf("%s, notes: %q; without a real-time priority %q", o.Error, o.Notes, without.Notes)
	}
	o.isIn(t)
}

// TestHierarchies holds in which hierarchies of version 1 groups are made on hosts whose groups have a real-time budget.
func TestHierarchies(t *testing.T) {
	t.Parallel()
	with, spent, none := captured(t, map[string]string{realtimeFile: "950000\n"}), captured(t, map[string]string{realtimeFile: "0\n"}), captured(t, nil)
	for name, test := range map[string]struct {
		own    procstats.Cgroup
		limits bool
		parent string
		cpu    bool
	}{
		"a budget":                           {own: procstats.Cgroup{V1: map[string]string{"cpu": with}}},
		"no budget":                          {own: procstats.Cgroup{V1: map[string]string{"cpu": spent}}, cpu: true},
		"a kernel without budgets":           {own: procstats.Cgroup{V1: map[string]string{"cpu": none}}, cpu: true},
		"no such hierarchy":                  {own: procstats.Cgroup{V2: none}, cpu: true},
		"limits":                             {own: procstats.Cgroup{V1: map[string]string{"cpu": with}}, limits: true, cpu: true},
		"a parent":                           {own: procstats.Cgroup{V1: map[string]string{"cpu": with}}, parent: "/jobs", cpu: true},
		"counts CPU time, too":               {own: procstats.Cgroup{V1: map[string]string{"cpu": with, "cpuacct": with}}, cpu: true},
		"counts CPU time, as version 2 does": {own: procstats.Cgroup{V2: none, V1: map[string]string{"cpu": with, "cpuacct": with}}},
	} {
		m := &maker{Options: Options{CPU: test.limits, Parent: test.parent}, group: &Group{executor: test.own}}
		got := m.hierarchies()
		cpuacct := test.cpu || test.own.V1["cpuacct"] != test.own.V1["cpu"]
		if slices.Contains(got, "cpu") != test.cpu || slices.Contains(got, "cpuacct") != cpuacct || !slices.Contains(got, "memory") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCreateInGroup makes the groups of a process that shares its group with others, as in a container or a session.
func TestCreateInGroup(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := newPath(t, "/holds")
	o := execute(t, plan{}, 0, path)
	if o.Error != "" || o.Place != Nested {
		t.Fatalf("placed %s, %s", o.Place, o.Error)
	}
	o.isIn(t)
	if version(t, "memory") == 1 {
		if len(o.Notes) > 0 || !o.has("memory") {
			t.Errorf("notes %q, memory: %v", o.Notes, o.has("memory"))
		}
		return
	}
	// The task is there, with what every v2 group has, and nothing was done to the group of the others.
	if noted(o.Notes, "contains processes") != (version(t, "memory") == 2) || !noted(o.Notes, "no cgroup with memory") {
		t.Errorf("notes %q", o.Notes)
	}
	if roots(t)[""] == "" {
		return
	}
	dir := filepath.Join(roots(t)[""], path)
	if kind, handed := readWords(dir, "cgroup.type"), readWords(dir, subtreeControl); !slices.Equal(kind, []string{"domain"}) || len(handed) > 0 {
		t.Errorf("%s has become %v and hands on %v", dir, kind, handed)
	}
}

func TestCreateInParent(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := newPath(t, "/parent")
	o := execute(t, plan{Parent: path}, 0, "/")
	if o.Error != "" || o.Place != InParent || (len(o.Notes) == 0) != (version(t, "memory") > 0) {
		t.Fatalf("placed %s, %s, notes %q", o.Place, o.Error, o.Notes)
	}
	o.isIn(t)
	for _, dir := range (&Group{Cgroup: o.Group}).Folders() {
		if !strings.Contains(dir, path+"/tacho-") {
			t.Errorf("%s is not below %s", dir, path)
		}
	}
	if version(t, "memory") == 2 && !o.has("memory") {
		t.Error("the parent did not hand on its memory controller")
	}
	if o := execute(t, plan{Parent: path + "/nothing"}, 0, "/"); !strings.Contains(o.Error, "no such group in any hierarchy") {
		t.Errorf("a parent that is not there: %q", o.Error)
	}
}

// TestParentMissingInAHierarchy names a parent that does not have the limit's controller; what the error says to do
// helps.
func TestParentMissingInAHierarchy(t *testing.T) {
	t.Parallel()
	needRoot(t)
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	for controller, limits := range map[string]*proto.Limits{"cpu": {CpuCores: new(0.5)}, "cpuset": {Cpuset: "0"}} {
		t.Run(controller, func(t *testing.T) {
			i := slices.IndexFunc(mounts, func(m kernel.CgroupMount) bool {
				return m.Version == 1 && slices.Contains(m.Controllers, controller) && !slices.Contains(m.Controllers, "memory")
			})
			if i < 0 {
				t.Skip("there is no v1 hierarchy of ", controller)
			}
			path := newPath(t, "/parent")
			dir := filepath.Join(mounts[i].Point, path)
			must(t, os.Remove(dir))
			if err := CheckParent(kernel.HostFS(), path, "pids", controller); err == nil || !strings.Contains(err.Error(), "hierarchy of "+controller) {
				t.Errorf("the check says %v", err)
			}
			o := execute(t, plan{Parent: path, Limits: limits}, 0, "/")
			if want := path + " does not exist in that hierarchy; create it there"; !strings.Contains(o.Error, want) {
				t.Fatalf("%q, want that %s", o.Error, want)
			}
			must(t, os.Mkdir(dir, 0o755))
			if controller == "cpuset" {
				must(t, inheritCpuset(filepath.Dir(dir), dir))
			}
			testkit.Equal(t, execute(t, plan{Parent: path, Limits: limits}, 0, "/").Error, "", "with that parent")
			if err := CheckParent(kernel.HostFS(), path, "pids", controller); err != nil {
				t.Errorf("with that parent the check says %v", err)
			}
		})
	}
}

// TestCreateWithCpusetOfHost joins a cpuset that the host keeps for several tasks and in which it moves CPUs.
func TestCreateWithCpusetOfHost(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if version(t, "cpuset") != 1 {
		t.Skip("the cpuset controller is not on cgroup v1 here")
	}
	const online = "/sys/devices/system/cpu/online"
	all := testkit.Value(os.ReadFile(online))(t)
	path := newPath(t, "/shared")
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	i := slices.IndexFunc(mounts, func(m kernel.CgroupMount) bool { return slices.Contains(m.Controllers, "cpuset") })
	shared := filepath.Join(mounts[i].Point, path)
	must(t, write(shared, cpusetFile, "0"))
	o := execute(t, plan{CpusetDir: shared, Limits: &proto.Limits{Cpuset: strings.TrimSpace(string(all))}}, 0, "/")
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	if !strings.Contains(o.Task, "cpuset:"+path+"\n") || o.Group.V1["cpuset"] != "" {
		t.Errorf("the task is not in the host's %s but in\n%s", path, o.Task)
	}
	if strings.Contains(o.Own, path) {
		t.Errorf("the executor's thread has stayed in\n%s", o.Own)
	}
	if l := o.limit(t, cpusetFile); l.EffectiveText != "0" || l.Where != shared {
		t.Errorf("limit %+v, want the host's CPU 0", l)
	}
	if _, err := os.Stat(shared); err != nil {
		t.Errorf("the host's group is gone: %v", err)
	}
	fillsBlankCpuset(t, filepath.Join(shared, "task"))
	o = execute(t, plan{CpusetDir: shared + "/none"}, 0, "/")
	if !strings.Contains(o.Error, "use the host's cpuset") {
		t.Errorf("a cpuset that is not there: %q", o.Error)
	}
}

// fillsBlankCpuset makes a host's group that has neither CPUs nor memory nodes yet.
func fillsBlankCpuset(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o755))
	o := execute(t, plan{CpusetDir: dir}, 0, "/")
	if o.Error != "" || !noted(o.Notes, "it has no CPUs") {
		t.Errorf("without a list of CPUs: %q, notes %q", o.Error, o.Notes)
	}
	o = execute(t, plan{CpusetDir: dir, Limits: &proto.Limits{Cpuset: "0"}}, 0, "/")
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	if l := o.limit(t, cpusetFile); l.EffectiveText != "0" || l.Where != dir {
		t.Errorf("limit %+v, want CPU 0 of the task's", l)
	}
	if !strings.Contains(o.Task, filepath.Base(dir)+"\n") {
		t.Errorf("the task is not in %s but in\n%s", dir, o.Task)
	}
	o = execute(t, plan{CpusetDir: dir, Limits: &proto.Limits{Cpuset: "4000"}}, 0, "/")
	if l := o.limit(t, cpusetFile); o.Error != "" || l.EffectiveText != "0" {
		t.Errorf("what the host has filled is its own to change: %q, %+v", o.Error, l)
	}
}

// TestCreateInParentWithProcesses names a parent that cannot hand on controllers.
func TestCreateInParentWithProcesses(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := newPath(t, "/busy")
	o := execute(t, plan{Parent: path}, 0, path)
	if o.Error != "" || o.Place != InParent {
		t.Fatalf("placed %s, %s", o.Place, o.Error)
	}
	o.isIn(t)
	if want := version(t, "memory") == 2; noted(o.Notes, "contains processes") != want {
		t.Errorf("notes %q", o.Notes)
	}
}

// TestCreateUnprivileged is about a user who was given nothing.
func TestCreateUnprivileged(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := newPath(t, "/session")
	o := execute(t, plan{}, nobody, path)
	if o.Error != "" || o.Place != Nowhere || o.Group.Exists() {
		t.Fatalf("placed %s in %+v, %s", o.Place, o.Group, o.Error)
	}
	if len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "permission denied") {
		t.Errorf("notes %q, want one with the reason", o.Notes)
	}
	o = execute(t, plan{Limits: &proto.Limits{MemoryMaxBytes: new(int64(1 << 20))}}, nobody, path)
	if !o.Refused || !strings.Contains(o.Error, "memory limit 1 MiB cannot be applied here: the task has no cgroup") || !strings.Contains(o.Error, "to get it: ") {
		t.Errorf("a limit without a group: %q (refused %v)", o.Error, o.Refused)
	}
}

// TestCreateDelegated is about a user who was given the group above his own, as systemd's Delegate=yes does with a
// leaf in it.
func TestCreateDelegated(t *testing.T) {
	needRoot(t)
	if layout(t) != "v2" {
		t.Skip("a group above one's own is delegated on v2 only: v1 has a group per controller")
	}
	path := newPath(t, "/delegated")
	dir := filepath.Join(roots(t)[""], path)
	must(t, os.Mkdir(filepath.Join(dir, "leaf"), 0o755))
	give(t, path, nobody)
	give(t, path+"/leaf", nobody)
	limit := int64(64 << 20)
	o := execute(t, plan{Limits: &proto.Limits{MemoryMaxBytes: &limit, PidsMax: new(int64(10))}}, nobody, path+"/leaf")
	if o.Error != "" || o.Place != Sibling || len(o.Notes) > 0 {
		t.Fatalf("placed %s, %s, notes %q", o.Place, o.Error, o.Notes)
	}
	o.isIn(t)
	if filepath.Dir(o.Group.V2) != dir || !o.has("memory") || *o.Limits[0].Effective != float64(limit) {
		t.Errorf("%s, limits %+v", o.Group.V2, o.Limits)
	}
	// A leaf with others in the group above it is no such place.
	o = execute(t, plan{Parent: path}, nobody, path+"/leaf")
	if o.Error != "" || o.Place != InParent || !o.has("memory") {
		t.Errorf("below the delegated group: placed %s, %s, notes %q", o.Place, o.Error, o.Notes)
	}
}

// TestCreateInDelegatedParent is about a user who owns a group elsewhere: on v1 the forking thread can enter it and not
// return to its own group; on v2 nothing can enter it.
func TestCreateInDelegatedParent(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := newPath(t, "/owned")
	give(t, path, nobody)
	o := execute(t, plan{Parent: path}, nobody, "")
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	if o.Group.V2 != "" || roots(t)[""] != "" && !noted(o.Notes, "cgroup.procs is not writable") {
		t.Errorf("%+v, notes %q", o.Group, o.Notes)
	}
	if layout(t) == "v2" {
		testkit.Equal(t, o.Place, Nowhere, "placed")
		return
	}
	o.isIn(t)
	if o.Place != InParent || !o.has("pids") || !strings.Contains(o.Own, ":pids:"+path+"\n") {
		t.Errorf("placed %s, pids %v, the thread is in\n%s", o.Place, o.has("pids"), o.Own)
	}
}

func TestCreateReadOnly(t *testing.T) {
	t.Parallel()
	needRoot(t)
	o := execute(t, plan{Before: []confine.Step{confine.ReadOnlyCgroups}}, 0, "")
	if o.Error != "" || o.Place != Nowhere || len(o.Notes) != 1 || !noted(o.Notes, "read-only file system") {
		t.Errorf("placed %s, %s, notes %q", o.Place, o.Error, o.Notes)
	}
}

// TestCreateInNamespace is about a container: the group of its processes is the root that they see.
func TestCreateInNamespace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := newPath(t, "/container")
	o := execute(t, plan{Before: []confine.Step{confine.CgroupNamespace, confine.CgroupMounts}}, 0, path)
	if o.Error != "" || o.Place != Nested || o.Group.Layout() != layout(t) {
		t.Errorf("placed %s in %+v, %s, notes %q", o.Place, o.Group, o.Error, o.Notes)
	}
	if !strings.Contains(o.Task, ":/tacho-") {
		t.Errorf("the task is in\n%s", o.Task)
	}
	// The mounts of the host show groups that have no name in the namespace.
	o = execute(t, plan{Before: []confine.Step{confine.CgroupNamespace}}, 0, path)
	if o.Error != "" || o.Place != Nowhere || !noted(o.Notes, "cgroup namespace") {
		t.Errorf("placed %s in %+v, %s, notes %q", o.Place, o.Group, o.Error, o.Notes)
	}
}

// TestEnterWithoutClone3 starts a task where a sandbox does not allow it to be born in its group.
func TestEnterWithoutClone3(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if layout(t) == "v1" {
		t.Skip("groups of v1 are entered without clone3")
	}
	path := newPath(t, "/sandbox")
	o := execute(t, plan{Before: []confine.Step{confine.NoClone3}, Visit: true}, 0, path)
	if o.Error != "" || o.Group.V2 == "" {
		t.Fatalf("%+v, %s", o.Group, o.Error)
	}
	o.isIn(t)
	if !strings.Contains(o.Own, "0::"+path+"\n") {
		t.Errorf("the process that started it has not returned to its own group, it is in\n%s", o.Own)
	}
}

func TestCanClone(t *testing.T) {
	if err := CanClone(); err != nil {
		t.Skipf("this kernel or sandbox cannot start a process in a group: %v", err)
	}
	before, err := os.ReadFile("/proc/thread-self/children")
	if err != nil {
		t.Skipf("children cannot be listed here: %v", err)
	}
	testkit.NoError(t, CanClone())
	if after, err := os.ReadFile("/proc/thread-self/children"); err != nil || string(after) != string(before) {
		t.Errorf("the question started a process: children %q, before %q (%v)", after, before, err)
	}
}

func TestCreateWithoutHierarchies(t *testing.T) {
	g, err := Create(Options{FS: kernel.FS{Proc: t.TempDir()}, ID: "x"})
	if err != nil || g.Exists() || g.Placement != Nowhere || !noted(g.Notes, "no cgroup: ") {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestUseHierarchy holds that a group of a kernel that asks, before Linux 5.11, encloses those below it.
func TestUseHierarchy(t *testing.T) {
	for before, after := range map[string]string{"0\n": "1", "1\n": "1\n", "": ""} {
		dir := t.TempDir()
		file := filepath.Join(dir, "memory.use_hierarchy")
		if before != "" {
			must(t, os.WriteFile(file, []byte(before), 0o600))
		}
		must(t, useHierarchy(dir))
		if got, _ := os.ReadFile(file); strings.TrimSpace(string(got)) != strings.TrimSpace(after) {
			t.Errorf("%q became %q, want %q", before, got, after)
		}
	}
}
