// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package where

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/doctor"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// taskVariable makes this binary the command that is run.
const taskVariable = "E2E_WHERE_TASK"

func TestMain(m *testing.M) {
	confine.Main()
	if os.Getenv(taskVariable) != "" {
		task()
	}
	os.Exit(rig.Main(m))
}

// task is a command that uses something, has a child, and ends with a code of its own.
func task() {
	switch os.Getenv(taskVariable) {
	case "able":
		printAbilities()
		os.Exit(0)
	case "mounts":
		printMounts()
		os.Exit(0)
	}
	memory := make([]byte, 8<<20)
	for i := range memory {
		memory[i] = byte(i)
	}
	if role := os.Getenv(taskVariable); strings.HasPrefix(role, "stubborn") {
		signal.Ignore(unix.SIGTERM)
		if len(role) < len("stubborn")+3 {
			// A chain of processes, each in a session of its own.
			child := exec.Command("/proc/self/exe")
			child.Env = append(os.Environ(), taskVariable+"="+role+".")
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := child.Start(); err != nil {
				os.Exit(1)
			}
		}
		for {
			// Without a signal to wait for, the Go runtime would take a wait for a deadlock.
			_ = unix.Pause()
		}
	}
	if os.Getenv(taskVariable) == "parent" {
		child := exec.Command("/proc/self/exe")
		child.Env = []string{taskVariable + "=child"}
		if out, err := child.CombinedOutput(); err != nil {
			fmt.Printf("child: %v %s\n", err, out)
			os.Exit(1)
		}
		fmt.Println("hello")
		os.Exit(7)
	}
	runtime.KeepAlive(memory)
	os.Exit(0)
}

// spot is a place in which tacho has to work.
type spot struct {
	steps []confine.Step
	// namespaces are CLONE_NEWPID and CLONE_NEWUSER.
	namespaces uintptr
	user       rig.User
	// groups are the folders of groups to start in; none for the tests' own.
	groups []string
	// born is the folder of a v2 group to be started in, for users who may not move there; "" for none.
	born string
	// args are more flags for tacho run.
	args []string
}

// command is tacho in a place.
func (s spot) command(t *testing.T, p *rig.Place, args ...string) *exec.Cmd {
	t.Helper()
	self := p.Path("self")
	if _, err := os.Stat(self); err != nil {
		content := testkit.Value(os.ReadFile("/proc/self/exe"))(t)
		testkit.Must(t, os.WriteFile(self, content, 0o755))
	}
	cmd := p.Command(t.Context(), rig.Tacho(), args...)
	cmd.Env = append(cmd.Env, taskVariable+"=parent")
	// The user is changed after the steps, which take root.
	cmd.SysProcAttr.Credential = nil
	o := confine.Options{Steps: s.steps, Cgroups: s.groups, UID: p.User.UID, GID: p.User.UID}
	if s.namespaces&unix.CLONE_NEWUSER != 0 {
		// Root there is the user here, as in a rootless container.
		id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: p.User.UID, Size: 1}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = id, id
		cmd.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
		o.UID, o.GID = 0, 0
	}
	cmd.SysProcAttr.Cloneflags = s.namespaces
	if s.born != "" {
		dir := testkit.Value(os.Open(s.born))(t)
		t.Cleanup(func() { dir.Close() })
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	testkit.Must(t, confine.Wrap(cmd, self, o))
	return cmd
}

// run runs the task in a place and asserts what has to hold in every one: the command's own output and code, a record,
// nothing left behind.
func (s spot) run(t *testing.T, args ...string) (*record.Record, rig.Output) {
	t.Helper()
	p := rig.NewPlace(t, s.user)
	// The leftovers that the place looks for take its own processes and files; a copy of this binary is none.
	flags := append([]string{"run", "--output-dir", p.Out, "--interval", "20ms"}, slices.Concat(s.args, args)...)
	cmd := s.command(t, p, append(flags, "--", p.Path("self"))...)
	out := rig.Capture(t, cmd)
	if out.Code != 7 || out.Stdout != "hello\n" {
		t.Fatalf("code %d, output %q, said\n%s", out.Code, out.Stdout, out.Stderr)
	}
	r := p.TheRun(t).Record
	// On a slow machine samples take long; that says nothing of the place.
	r.Notes = slices.DeleteFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, "sampling interval stretched") })
	if r.State != record.Exited || r.ExitCode == nil || *r.ExitCode != 7 {
		t.Errorf("the record says %s, code %v", r.State, r.ExitCode)
	}
	if cpu := r.Headline["cpu_seconds_total"]; cpu.Value == nil || *cpu.Value <= 0 {
		t.Errorf("CPU time %+v", cpu)
	}
	peak := r.Headline["memory_peak_bytes"]
	switch {
	case peak.Guarantee == procstats.Exact:
		if *peak.Value < 8<<20 {
			t.Errorf("memory peak %+v", peak)
		}
	case peak.Guarantee == procstats.LowerBound: // what is below the executor's own, which the task inherits, is not told apart
	case peak.Value != nil || peak.Reason == "":
		t.Errorf("memory peak %+v", peak)
	}
	return r, out
}

// refuses asserts that a limit is refused in words, with nothing started.
func (s spot) refuses(t *testing.T, want string, args ...string) {
	t.Helper()
	p := rig.NewPlace(t, s.user)
	cmd := s.command(t, p, slices.Concat([]string{"run", "--no-files"}, s.args, args, []string{"--", p.Path("self")})...)
	out := rig.Capture(t, cmd)
	if out.Code != 125 || out.Stdout != "" || !strings.Contains(out.Stderr, want) || strings.Count(out.Stderr, "\n") != 1 {
		t.Errorf("%v: code %d, output %q, said\n%swant one line with %q", args, out.Code, out.Stdout, out.Stderr, want)
	}
}

// doctor asks tacho doctor in the place.
func (s spot) doctor(t *testing.T) *doctor.Report {
	t.Helper()
	p := rig.NewPlace(t, s.user)
	cmd := s.command(t, p, "doctor", "--format", "json")
	out := rig.Capture(t, cmd)
	r := &doctor.Report{}
	err := json.Unmarshal([]byte(out.Stdout), r)
	if runs := check(t, r, "run").State != doctor.Missing; err != nil || runs != (out.Code == 0) {
		t.Fatalf("code %d, %v\n%s%s", out.Code, err, out.Stdout, out.Stderr)
	}
	for _, c := range r.Checks {
		if c.Found == "" || c.State == doctor.Missing && c.Costs == "" {
			t.Errorf("%+v does not say what is there and what it costs", c)
		}
	}
	return r
}

// check finds one check of a report.
func check(t *testing.T, r *doctor.Report, name string) doctor.Check {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q among %+v", name, r.Checks)
	}
	return r.Checks[i]
}

func needRoot(t *testing.T) {
	t.Helper()
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("making such a place takes root")
	}
}

// isPureV2 reports whether v2 alone is mounted.
func isPureV2() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// isOnV1 reports whether a controller has a v1 hierarchy.
func isOnV1(t *testing.T, controller string) bool {
	t.Helper()
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	return slices.ContainsFunc(mounts, func(m kernel.CgroupMount) bool {
		return m.Version == 1 && slices.Contains(m.Controllers, controller)
	})
}

// makeGroup makes a v2 group that belongs to a user; whoever made the one above removes it.
func makeGroup(t *testing.T, dir string, owner rig.User) {
	t.Helper()
	testkit.Must(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { testkit.NoError(t, os.Remove(dir)) })
	for _, name := range []string{".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		testkit.Must(t, os.Chown(filepath.Join(dir, name), owner.UID, -1))
	}
}

// newGroups makes a group in every hierarchy and returns their folders.
func newGroups(t *testing.T, owner rig.User) (path string, folders []string) {
	t.Helper()
	parent, err := rig.NewParent(t, owner)
	if err != nil {
		t.Skipf("no group can be made here: %v", err)
	}
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	for _, mount := range mounts {
		dir := filepath.Join(mount.Point, parent.Path)
		if _, err := os.Stat(dir); err == nil {
			folders = append(folders, dir)
		}
	}
	return parent.Path, folders
}
