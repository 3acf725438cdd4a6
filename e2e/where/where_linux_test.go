// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package where

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/doctor"
	"github.com/tachograph/tacho/internal/testkit"
)

func noted(r *record.Record, words string) bool {
	return slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, words) })
}

// placed asserts where a task was placed, and that a note has some words.
func placed(t *testing.T, r *record.Record, placement, words string) {
	t.Helper()
	if r.Cgroup.Placement != placement || words != "" && !noted(r, words) {
		t.Errorf("placed %s in %s, notes %q; want %s and %q", r.Cgroup.Placement, r.Cgroup.V2, r.Notes, placement, words)
	}
}

// says asserts that the doctor reports the state of a check, and a way to enable it that has some words.
func (s spot) says(t *testing.T, name string, state doctor.State, enable string) {
	t.Helper()
	if c := check(t, s.doctor(t), name); c.State != state || !strings.Contains(c.Enable, enable) {
		t.Errorf("%+v, want %s and %q", c, state, enable)
	}
}

// TestHere is the place as it is, for whoever runs the tests: the machine, a guest, a delegated group.
func TestHere(t *testing.T) {
	rig.Require(t)
	s := spot{user: rig.Self()}
	r, out := s.run(t)
	d := s.doctor(t)
	t.Logf("%s; placed %s in %s, notes %q", check(t, d, "environment").Found, r.Cgroup.Placement, r.Cgroup.Layout, r.Notes)
	if strings.Contains(out.Stderr, "\ntacho: warning") {
		t.Error(out.Stderr)
	}
	r.Notes = slices.DeleteFunc(r.Notes, func(note string) bool { // as where the processor is emulated
		return strings.Contains(note, "the sampling budget")
	})
	// What the doctor says and what happens are the same.
	if c := check(t, d, "cgroup"); (c.State == doctor.Missing) != (r.Cgroup.Placement == "none") || (c.State == doctor.Works) != (len(r.Notes) == 0) {
		t.Errorf("the doctor says %+v, and the task was placed %s, notes %q", c, r.Cgroup.Placement, r.Notes)
	}
	const stalled = "psi_cpu_some_seconds_total"
	if _, measured := r.Measurements[stalled]; measured != (check(t, d, "pressure (PSI)").State == doctor.Works && r.Cgroup.V2 != "") {
		t.Errorf("the doctor says %+v; %s: measured %v, absent %q", check(t, d, "pressure (PSI)"), stalled, measured, r.Absent[stalled])
	}
	holds := slices.ContainsFunc(d.Checks, func(c doctor.Check) bool { return c.Name == "cgroup memory" && c.State == doctor.Works })
	if !holds {
		s.refuses(t, "memory limit 64 MiB cannot be applied here: ", "--memory", "64M")
		return
	}
	r, _ = s.run(t, "--memory", "64M")
	if len(r.Limits) == 0 || r.Limits[0].Effective == nil || *r.Limits[0].Effective != 64<<20 {
		t.Errorf("limits %+v", r.Limits)
	}
}

func TestUnprivileged(t *testing.T) {
	needRoot(t)
	s := spot{user: rig.Unprivileged()}
	r, _ := s.run(t)
	placed(t, r, "none", "permission denied")
	s.refuses(t, "the task has no cgroup", "--pids", "100")
	s.says(t, "cgroup", doctor.Missing, " ")
}

// TestDelegatedHierarchies is a user whose shell is in groups of his own on every hierarchy, as the doctor advises on v1.
func TestDelegatedHierarchies(t *testing.T) {
	needRoot(t)
	if isPureV2() {
		t.Skip("it is about hierarchies of v1; for v2 see TestRootless")
	}
	_, groups := newGroups(t, rig.Unprivileged())
	s := spot{user: rig.Unprivileged(), groups: groups}
	r, _ := s.run(t, "--pids", "50")
	if r.Cgroup.Placement != "nested" || (len(r.Notes) == 0) != isOnV1(t, "memory") || len(r.Limits) == 0 || *r.Limits[0].Effective != 50 {
		t.Errorf("placed %s, notes %q, limits %+v", r.Cgroup.Placement, r.Notes, r.Limits)
	}
}

func TestReadOnlyCgroups(t *testing.T) {
	needRoot(t)
	s := spot{steps: []confine.Step{confine.ReadOnlyCgroups}, user: rig.Self()}
	r, _ := s.run(t)
	placed(t, r, "none", "read-only file system")
	s.refuses(t, "remount,rw", "--cpu", "1")
	s.says(t, "cgroup", doctor.Missing, "remount,rw")
}

func TestNoCgroups(t *testing.T) {
	needRoot(t)
	s := spot{steps: []confine.Step{confine.NoCgroups}, user: rig.Self()}
	r, _ := s.run(t)
	placed(t, r, "none", "no cgroup hierarchy is mounted here")
	s.refuses(t, "mount -t cgroup2", "--memory", "64M")
	s.doctor(t)
}

// TestContainer is root in a container with cgroups to write to: groups, processes and mounts of its own.
func TestContainer(t *testing.T) {
	needRoot(t)
	_, groups := newGroups(t, rig.Self())
	s := spot{
		steps:      []confine.Step{confine.CgroupNamespace, confine.CgroupMounts, confine.Proc},
		namespaces: unix.CLONE_NEWPID, user: rig.Self(), groups: groups,
	}
	r, _ := s.run(t)
	if r.Cgroup.Placement != "nested" || r.PID > 100 {
		t.Errorf("placed %s, process %d", r.Cgroup.Placement, r.PID)
	}
	d := s.doctor(t)
	if c := check(t, d, "namespaces"); c.State != doctor.Partly || !strings.Contains(c.Found, "cgroup, pid") {
		t.Errorf("%+v", c)
	}
	if !isPureV2() {
		// On v1 each controller has its own groups, with or without processes.
		if onV1 := isOnV1(t, "memory"); (len(r.Notes) == 0) != onV1 {
			t.Errorf("notes %q", r.Notes)
		}
		return
	}
	// All processes of the container are in the one group: nothing can be handed on before they are moved.
	if !noted(r, "contains processes") {
		t.Errorf("notes %q", r.Notes)
	}
	s.refuses(t, "has no memory controller", "--memory", "64M")
	if c := check(t, d, "cgroup memory"); c.State != doctor.Missing || !strings.Contains(c.Enable, "tacho run --cgroup-parent / ") {
		t.Errorf("%+v", c)
	}
	// What the doctor says helps.
	s.steps, s.args = append(s.steps, confine.Leaf), []string{"--cgroup-parent", "/"}
	t.Cleanup(func() { testkit.NoError(t, os.Remove(filepath.Join(groups[0], "init"))) })
	r, _ = s.run(t, "--memory", "64M")
	if r.Cgroup.Placement != "parent" || len(r.Notes) > 0 || len(r.Limits) == 0 || *r.Limits[0].Effective != 64<<20 {
		t.Errorf("placed %s, notes %q, limits %+v", r.Cgroup.Placement, r.Notes, r.Limits)
	}
}

// TestCgroupNamespace shows the mounts of the machine, of which nothing has a name in the namespace.
func TestCgroupNamespace(t *testing.T) {
	needRoot(t)
	_, groups := newGroups(t, rig.Self())
	s := spot{steps: []confine.Step{confine.CgroupNamespace}, user: rig.Self(), groups: groups}
	r, _ := s.run(t)
	placed(t, r, "none", "cgroup namespace")
	s.doctor(t)
}

func TestPIDNamespace(t *testing.T) {
	needRoot(t)
	s := spot{steps: []confine.Step{confine.Proc}, namespaces: unix.CLONE_NEWPID, user: rig.Self()}
	r, _ := s.run(t)
	if r.Cgroup.Placement == "none" || r.PID > 100 {
		t.Errorf("placed %s, process %d", r.Cgroup.Placement, r.PID)
	}
	if c := check(t, s.doctor(t), "namespaces"); !strings.Contains(c.Found, "pid") {
		t.Errorf("%+v", c)
	}
}

// TestForeignProc has the /proc of the machine in a PID namespace, as unshare --pid leaves it.
func TestForeignProc(t *testing.T) {
	needRoot(t)
	s := spot{namespaces: unix.CLONE_NEWPID, user: rig.Self()}
	s.refuses(t, "/proc belongs to another PID namespace")
	s.says(t, "hidden processes", doctor.Missing, "mount -t proc")
}

func TestUserNamespace(t *testing.T) {
	needRoot(t)
	s := spot{namespaces: unix.CLONE_NEWUSER, user: rig.Unprivileged()}
	r, _ := s.run(t)
	placed(t, r, "none", "")
	d := s.doctor(t)
	if c := check(t, d, "environment"); !strings.Contains(c.Found, "rootless") {
		t.Errorf("%+v", c)
	}
	if c := check(t, d, "OOM protection"); c.State == doctor.Works {
		t.Errorf("%+v", c)
	}
}

// TestRootless is root of a user namespace who was given a group, as a rootless container with delegation.
func TestRootless(t *testing.T) {
	needRoot(t)
	if !isPureV2() {
		t.Skip("delegation to users is a matter of v2")
	}
	_, groups := newGroups(t, rig.Unprivileged())
	s := spot{namespaces: unix.CLONE_NEWUSER, user: rig.Unprivileged(), born: groups[0]}
	r, _ := s.run(t)
	if r.Cgroup.Placement != "nested" || filepath.Dir(r.Cgroup.V2) != groups[0] {
		t.Errorf("in the group: placed %s in %s, notes %q", r.Cgroup.Placement, r.Cgroup.V2, r.Notes)
	}
	// In a leaf of the group, there is room for others beside it.
	s.born = filepath.Join(groups[0], "leaf")
	makeGroup(t, s.born, s.user)
	r, _ = s.run(t, "--pids", "50")
	if r.Cgroup.Placement != "sibling" || filepath.Dir(r.Cgroup.V2) != groups[0] || len(r.Notes) > 0 {
		t.Errorf("in a leaf: placed %s in %s, notes %q", r.Cgroup.Placement, r.Cgroup.V2, r.Notes)
	}
}

func TestHiddenProcesses(t *testing.T) {
	needRoot(t)
	s := spot{steps: []confine.Step{confine.HiddenProcesses}, namespaces: unix.CLONE_NEWPID, user: rig.Unprivileged()}
	s.run(t)
	s.says(t, "hidden processes", doctor.Partly, "hidepid=0")
}

func TestNoPressure(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/proc/pressure"); err != nil {
		t.Skipf("there is nothing to hide: %v", err)
	}
	s := spot{steps: []confine.Step{confine.NoPressure}, user: rig.Self()}
	r, _ := s.run(t)
	if _, measured := r.Measurements["psi_cpu_some_seconds_total"]; !measured { // cgroups have files of their own
		s.says(t, "pressure (PSI)", doctor.Missing, "")
		return
	}
	s.says(t, "pressure (PSI)", doctor.Works, "")
}

// TestPoorProc has a /proc that shows little but processes, or no /sys: tasks run, are found again from outside, and the
// record and the doctor say what is lost.
func TestPoorProc(t *testing.T) {
	needRoot(t)
	for _, step := range []confine.Step{confine.ProcessesOnly, confine.MaskedProc, confine.NoSys} {
		for _, user := range []rig.User{rig.Self(), rig.Unprivileged()} {
			t.Run(fmt.Sprint(step, user.UID), func(t *testing.T) {
				s := spot{steps: []confine.Step{step}, user: user}
				r, _ := s.run(t)
				d, hasBoot := s.doctor(t), step == confine.NoSys
				if noted(r, "this boot has no id") == hasBoot || (check(t, d, "boot id").State == doctor.Works) != hasBoot {
					t.Errorf("boot id %q, notes %q, the doctor says %+v", r.BootID, r.Notes, check(t, d, "boot id"))
				}
				if c := check(t, d, "exit records"); step == confine.NoSys && user == rig.Self() && !strings.Contains(c.Enable, "mount -t sysfs") {
					t.Errorf("%+v", c)
				}
				s.stopsFromOutside(t)
			})
		}
	}
}

// stopsFromOutside stops a task from outside the place in which it was started.
func (s spot) stopsFromOutside(t *testing.T) {
	t.Helper()
	p := rig.NewPlace(t, s.user)
	cmd := s.command(t, p, "run", "--output-dir", p.Out, "--detach", "--", p.Path("self"))
	cmd.Env = append(cmd.Env, taskVariable+"=stubborn")
	if out := rig.Capture(t, cmd); out.Code != 0 {
		t.Fatalf("code %d, said\n%s", out.Code, out.Stderr)
	}
	if r := p.TheRun(t).Record; r.State != record.Running {
		t.Errorf("it is %s", r.State)
	}
	out := rig.Capture(t, p.Command(t.Context(), rig.Tacho(), "stop", "--output-dir", p.Out, "--grace", "100ms", "last"))
	if r := p.TheRun(t).Record; out.Code != 0 || r.Diagnosis.Verdict != record.Stopped {
		t.Errorf("code %d, %s, said\n%s", out.Code, r.Diagnosis.Verdict, out.Stderr)
	}
	rig.Eventually(t, time.Minute, "the executor ends", func() bool { return len(p.Strays()) == 0 })
}

// TestNothingRuns is where no task can be started: the doctor says so with the same words.
func TestNothingRuns(t *testing.T) {
	needRoot(t)
	for step, want := range map[confine.Step]string{confine.NoProc: "mount -t proc proc /proc", confine.NoDevices: "open /dev/null"} {
		s := spot{steps: []confine.Step{step}, user: rig.Self()}
		s.refuses(t, want)
		if c := check(t, s.doctor(t), "run"); c.State != doctor.Missing || !strings.Contains(c.Found, want) {
			t.Errorf("%s: %+v", step, c)
		}
	}
}

// TestFilter denies system calls that tacho can do without.
func TestFilter(t *testing.T) {
	rig.Require(t)
	before, _ := spot{user: rig.Self()}.run(t)
	for step, call := range map[confine.Step]string{confine.NoClone3: "clone3", confine.NoPidfd: "pidfd_open"} {
		s := spot{steps: []confine.Step{step}, user: rig.Self()}
		r, _ := s.run(t)
		if r.Cgroup.Placement != before.Cgroup.Placement {
			t.Errorf("placed %s, without a filter %s", r.Cgroup.Placement, before.Cgroup.Placement)
		}
		if c := check(t, s.doctor(t), "system call filter"); c.State != doctor.Partly || !strings.Contains(c.Found, call) {
			t.Errorf("%+v", c)
		}
	}
}

// TestFilterStop stops a task that does not want to, with its children, where no process can be held by descriptor.
func TestFilterStop(t *testing.T) {
	rig.Require(t)
	for _, placement := range []string{"auto", "none"} {
		s := spot{steps: []confine.Step{confine.NoPidfd}, user: rig.Self()}
		p := rig.NewPlace(t, s.user)
		cmd := s.command(t, p, "run", "--no-files", "--cgroup", placement, "--timeout", "300ms", "--kill-grace", "100ms", "--", p.Path("self"))
		cmd.Env = append(cmd.Env, taskVariable+"=stubborn")
		out := rig.Capture(t, cmd)
		if out.Code != 124 {
			t.Errorf("cgroup %s: code %d, said\n%s", placement, out.Code, out.Stderr)
		}
		// What is left of the task is told by the place.
	}
}
