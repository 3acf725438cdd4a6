// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// user is how tacho is called in a test: from which folder, and with which environment beside the usual.
type user struct {
	dir string
	env []string
	// stranger is in a user namespace that has no root, so that the runtime folder is where the environment says.
	stranger bool
}

// tacho runs a command of tacho and returns its exit code and what it wrote.
func (u user) tacho(t *testing.T, args ...string) (code, stdout, stderr string) {
	t.Helper()
	cmd := tachoProcess(t, args...)
	cmd.Dir = u.dir
	// A shell has PWD from its user, who may have come by a symbolic link.
	cmd.Env = append(cmd.Env, append(u.env, "PWD="+u.dir)...)
	if u.stranger && os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		}
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if u.stranger && errors.Is(err, unix.EPERM) {
		t.Skipf("no user namespace can be made here: %v", err)
	}
	if err == nil {
		return "0", out.String(), said.String()
	}
	return codeOf(err), out.String(), said.String()
}

// runtimeDir is the environment with a runtime folder of its own.
func runtimeDir(t *testing.T) []string { return []string{"XDG_RUNTIME_DIR=" + shortDir(t)} }

// detached starts a detached run.
func (u user) detached(t *testing.T, script string) (dir string) {
	t.Helper()
	code, id, said := u.tacho(t, "run", "--detach", "--quiet", "--cgroup", "none", "--", "sh", "-c", script)
	if code != "0" {
		t.Fatalf("exit code %s: %s", code, said)
	}
	return filepath.Join(u.dir, record.DefaultRoot, strings.TrimSpace(id))
}

// TestStopByAnotherWay holds that a run is found whatever the path of its folder, and wherever its user's runtime folder
// is by now.
func TestStopByAnotherWay(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	straight, linked := filepath.Join(base, "straight"), filepath.Join(base, "linked")
	must(t, errors.Join(os.Mkdir(straight, 0o700), os.Symlink(straight, linked)))
	for name, users := range map[string][2]user{
		"by a symbolic link":          {{dir: linked}, {dir: straight}},
		"with another runtime folder": {{straight, runtimeDir(t), true}, {straight, runtimeDir(t), true}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := users[0].detached(t, "exec sleep 60")
			if code, _, said := users[1].tacho(t, "stop", "last"); code != "0" {
				t.Fatalf("stop: exit code %s: %s", code, said)
			}
			r, err := record.Read(dir)
			if err != nil || r.State != record.Exited || r.Diagnosis.Verdict != record.Stopped {
				t.Errorf("the record says %+v, %v, want that it was stopped", r, err)
			}
		})
	}
}

// hold opens a process that is there.
func hold(t *testing.T, pid int) (pidfd int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Skipf("pidfd_open: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(pidfd) })
	return pidfd
}

// hasEnded waits for the end of a process, which may not have been reaped yet.
func hasEnded(t *testing.T, pidfd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	return err == nil && n == 1
}

// TestStopRemains holds that stop kills what a dead executor left.
func TestStopRemains(t *testing.T) {
	u := user{dir: t.TempDir(), env: runtimeDir(t)} // any other command of this user would kill it too
	dir := u.detached(t, "exec sleep 60")
	before := testkit.Value(record.Read(dir))(t)
	main, executor := hold(t, before.PID), hold(t, before.Executor.PID)
	must(t, unix.PidfdSendSignal(executor, unix.SIGKILL, nil, 0))
	if !hasEnded(t, executor) {
		t.Fatal("the executor does not end")
	}
	code, _, said := u.tacho(t, "stop", "last")
	if want := fmt.Sprintf("tacho: run %s had lost its executor; killed what was left of it\n", before.ID); code != "0" || said != want {
		t.Errorf("exit code %s: %q, want 0 and %q", code, said, want)
	}
	if !hasEnded(t, main) {
		t.Error("the command is still there")
	}
	if code, _, said := u.tacho(t, "stop", "last"); code != "1" || !strings.Contains(said, "is not running") {
		t.Errorf("again: exit code %s: %s, want 1 and that it is not running", code, said)
	}
}

// TestAttachToTheEnded holds that the output of a detached run is shown after its end too.
func TestAttachToTheEnded(t *testing.T) {
	t.Parallel()
	u := user{dir: t.TempDir()}
	u.detached(t, "echo out; echo err >&2; exit 3")
	for range 2 { // the first may still find it running
		code, out, said := u.tacho(t, "attach", "last")
		if code != "3" || out != "out\n" || !strings.HasPrefix(said, "err\ntacho: Failed with exit code 3\n") {
			t.Errorf("exit code %s, output %q, %q", code, out, said)
		}
	}
}

// TestExecutorIsNamed holds that process lists show the executor, and what it has not executed yet, as tacho.
func TestExecutorIsNamed(t *testing.T) {
	t.Parallel()
	u := user{dir: t.TempDir()}
	code, out, said := u.tacho(t, "run", "--quiet", "--no-files", "--", "sh", "-c", "cat /proc/$PPID/comm; cat /proc/$PPID/task/*/comm | sort -u")
	if code != "0" || out != "tacho\ntacho\n" {
		t.Errorf("exit code %s, output %q, %q", code, out, said)
	}
}

// TestDetachWithoutFiles holds that nothing is named that would not work.
func TestDetachWithoutFiles(t *testing.T) {
	t.Parallel()
	u := user{dir: t.TempDir()}
	code, id, said := u.tacho(t, "run", "--detach", "--no-files", "--", "sleep", "60")
	id = strings.TrimSpace(id)
	if code != "0" || strings.Contains(said, "attach") || !strings.Contains(said, "tacho executors kill "+id+" stops it") {
		t.Errorf("exit code %s: %s", code, said)
	}
	var pid int
	if _, err := fmt.Sscanf(said, "tacho: running as process %d:", &pid); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	main := hold(t, pid)
	// Its exit code is not looked at: the race detector keeps the executor a second longer than is waited for.
	_, _, said = u.tacho(t, "executors", "kill", id)
	if !hasEnded(t, main) {
		t.Errorf("the command is still there: %s", said)
	}
}

// TestRunAsAnother holds that a user who may not become another is told so, and not that the command cannot be executed.
func TestRunAsAnother(t *testing.T) {
	t.Parallel()
	u := user{dir: t.TempDir(), stranger: true}
	runtimeDir := testkit.Value(os.MkdirTemp("", "r"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(runtimeDir) })
	u.env = []string{"XDG_RUNTIME_DIR=" + runtimeDir}
	code, _, said := u.tacho(t, "run", "--no-files", "--user", "root", "--", "true")
	if code != "125" || !strings.Contains(said, "as another user, 0:0: operation not permitted: requires root") {
		t.Errorf("exit code %s: %s", code, said)
	}
}

// TestLosesItsExecutor holds that the end of an executor is told in words.
func TestLosesItsExecutor(t *testing.T) {
	u := user{dir: t.TempDir()}
	code, _, said := u.tacho(t, "run", "--no-files", "--cgroup", "none", "--", "sh", "-c", "kill -9 $PPID; exec sleep 60")
	if want := "tacho: the command was killed: the executor is gone\n"; code != "125" || !strings.HasSuffix(said, want) || strings.Contains(said, "rpc error") {
		t.Errorf("exit code %s: %q, want 125 and %q", code, said, want)
	}
}
