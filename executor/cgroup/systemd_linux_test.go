// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

const systemd = "/lib/systemd/systemd"

// machine is a systemd that runs a container of its own: PID 1 of a PID namespace, in the root of a cgroup namespace.
type machine struct {
	path string // of its root within the hierarchy
	cmd  *exec.Cmd
	log  bytes.Buffer
}

// startSystemd boots a container.
func startSystemd(t *testing.T) *machine {
	t.Helper()
	needRoot(t)
	if layout(t) != "v2" {
		t.Skip("systemd takes v1 hierarchies as a whole: it is started on v2 only")
	}
	if _, err := os.Stat(systemd); err != nil {
		t.Skipf("systemd is not installed here: %v", err)
	}
	enableInRoot(t)
	m := &machine{path: newPath(t, "/machine")}
	m.cmd = exec.Command(systemd, "--system", "--log-target=console", "--show-status=no")
	m.cmd.Env = []string{"container=test", "PATH=/usr/bin:/bin", "SYSTEMD_UNIT_PATH=" + quietUnits(t)}
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	steps := []confine.Step{confine.CgroupNamespace, confine.CgroupMounts, confine.Proc, confine.EmptyRun}
	must(t, confine.Wrap(m.cmd, copied, confine.Options{Steps: steps}))
	startIn(t, m.cmd, m.path)
	ended := make(chan error, 1)
	go func() { ended <- m.cmd.Wait() }()
	t.Cleanup(func() {
		// All of its PID namespace ends with it.
		_ = m.cmd.Process.Kill()
		<-ended //nolint:errcheck // it was killed
	})
	// The socket by which it is reached without a bus.
	awaitFile(t, fmt.Sprintf("/proc/%d/root/run/systemd/private", m.cmd.Process.Pid), ended, &m.log)
	return m
}

// awaitFile waits until a manager has made a file.
func awaitFile(t *testing.T, path string, ended chan error, log *bytes.Buffer) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			t.Fatalf("systemd ended: %v\n%s", err, log.String())
		case <-deadline:
			t.Fatalf("systemd does not come up\n%s", log.String())
		}
	}
}

// quietUnits is a folder with the one unit that systemd cannot do without.
func quietUnits(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{dir, filepath.Dir(dir)} {
		must(t, os.Chmod(folder, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "default.target"), []byte("[Unit]\nDefaultDependencies=no\n"), 0o644))
	return dir
}

// execute carries a plan out as root within the machine, beside its units.
func (m *machine) execute(t *testing.T, p plan) *outcome {
	t.Helper()
	path := m.path + "/visitor"
	must(t, os.MkdirAll(filepath.Join(roots(t)[""], path), 0o755))
	group := testkit.Value(os.Open(filepath.Join(roots(t)[""], path)))(t)
	defer group.Close()
	// Done from within the group: nothing is started across the border of a namespace.
	p.Before = []confine.Step{confine.InitCgroupNamespace}
	cmd := p.command(t, 0, nil)
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	started := make(chan error)
	go func() {
		// Without an unlock the thread, which is in foreign namespaces, ends with the goroutine.
		runtime.LockOSThread()
		err := m.enter()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	must(t, <-started)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s\nsystemd:\n%s", err, stderr.String(), m.log.String())
	}
	result := &outcome{}
	if err := json.Unmarshal(stdout.Bytes(), result); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	return result
}

// enter puts what this thread forks into the machine's namespaces.
func (m *machine) enter() error {
	// A thread that shares its root and working directory with others cannot change its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	var files []*os.File
	for _, kind := range []string{"pid", "mnt"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", m.cmd.Process.Pid, kind))
		if err != nil {
			return err
		}
		defer file.Close()
		files = append(files, file)
	}
	for _, file := range files {
		if err := unix.Setns(int(file.Fd()), 0); err != nil {
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
	}
	return nil
}

func TestCreateInSystemdScope(t *testing.T) {
	m := startSystemd(t)
	limit := int64(64 << 20)
	o := m.execute(t, plan{Limits: &proto.Limits{MemoryMaxBytes: &limit, PidsMax: new(int64(10)), CpuCores: new(0.5), Cpuset: "0"}})
	if o.Error != "" || o.Place != InScope || len(o.Notes) > 0 {
		t.Fatalf("placed %s, %s, notes %q\nsystemd:\n%s", o.Place, o.Error, o.Notes, m.log.String())
	}
	o.isIn(t)
	scope := filepath.Dir(o.Group.V2)
	if !strings.HasPrefix(scope, filepath.Join(roots(t)[""], "system.slice/tacho-")) || filepath.Base(o.Group.V2) != "task" {
		t.Errorf("the group is %s", o.Group.V2)
	}
	if !strings.Contains(o.Own, strings.TrimPrefix(scope, roots(t)[""])+"/executor\n") {
		t.Errorf("the executor is in\n%s", o.Own)
	}
	o.holds(t, "cgroup_memory_max_bytes", float64(limit), float64(limit), "own")
	o.holds(t, "cgroup_cpu_quota_cores", 0.5, 0.5, "own")
	// systemd takes the scope away when its last process has ended.
	inside := strings.Replace(scope, roots(t)[""], filepath.Join(roots(t)[""], m.path), 1)
	gone := func() bool { _, err := os.Stat(inside); return err != nil }
	for range 500 {
		if gone() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("%s is still there, with %v", inside, slices.Collect(strings.Lines(string(mustRead(inside)))))
}

func mustRead(dir string) []byte {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// TestCreateInScopeOfUserManager is about a user without privileges whose own systemd was given a part of the
// hierarchy.
func TestCreateInScopeOfUserManager(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat(systemd); err != nil || layout(t) != "v2" {
		t.Skipf("it takes systemd and cgroup v2 alone: %v", err)
	}
	// Where systemd is not the init, its user manager does not start.
	if err := os.Mkdir("/run/systemd", 0o755); err != nil {
		t.Skipf("there is a systemd here already: %v", err)
	}
	t.Cleanup(func() { must(t, os.RemoveAll("/run/systemd")) })
	must(t, os.Mkdir("/run/systemd/system", 0o755))
	enableInRoot(t)
	path := newPath(t, "/user")
	for _, leaf := range []string{"/manager", "/session"} {
		must(t, os.Mkdir(filepath.Join(roots(t)[""], path+leaf), 0o755))
		give(t, path+leaf, nobody)
	}
	give(t, path, nobody)
	for _, controller := range []string{"memory", "pids"} {
		must(t, write(filepath.Join(roots(t)[""], path), subtreeControl, "+"+controller))
	}
	runtimeDir := userManager(t, path+"/manager")
	limit := int64(64 << 20)
	o := execute(t, plan{Limits: &proto.Limits{MemoryMaxBytes: &limit}}, nobody, path+"/session", "XDG_RUNTIME_DIR="+runtimeDir)
	if o.Error != "" || o.Place != InScope || !noted(o.Notes, "no cgroup with cpu, io") {
		t.Fatalf("placed %s in %s, %s, notes %q", o.Place, o.Group.V2, o.Error, o.Notes)
	}
	o.isIn(t)
	o.holds(t, "cgroup_memory_max_bytes", float64(limit), float64(limit), "own")
	if !strings.HasPrefix(o.Group.V2, filepath.Join(roots(t)[""], path, "manager")+"/") {
		t.Errorf("the group is %s", o.Group.V2)
	}
}

// userManager starts a systemd for the user nobody in a group and returns its XDG_RUNTIME_DIR.
func userManager(t *testing.T, path string) (runtimeDir string) {
	t.Helper()
	runtimeDir = testkit.Value(os.MkdirTemp("", "run"))(t)
	t.Cleanup(func() { must(t, os.RemoveAll(runtimeDir)) })
	must(t, os.Chown(runtimeDir, nobody, nobody))
	cmd := exec.Command(systemd, "--user", "--log-target=console")
	cmd.Env = []string{"XDG_RUNTIME_DIR=" + runtimeDir, "HOME=" + runtimeDir, "PATH=/usr/bin:/bin", "SYSTEMD_UNIT_PATH=" + quietUnits(t)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Setsid: true}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	startIn(t, cmd, path)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended //nolint:errcheck // it was killed
	})
	awaitFile(t, filepath.Join(runtimeDir, "systemd/private"), ended, &log)
	return runtimeDir
}
