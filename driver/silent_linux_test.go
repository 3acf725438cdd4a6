// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
)

// executor is the address of the one executor there is.
func (f *fixture) executor() *wire.Address {
	f.t.Helper()
	all, err := client.List(f.options.Config.RuntimeDir)
	if err != nil || len(all) != 1 {
		f.t.Fatalf("executors %v, %v; want one", all, err)
	}
	return all[0]
}

func signal(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(pid, signal))
}

// silence stops a process, which still runs for a moment when the signal was sent.
func (f *fixture) silence(pid int) {
	f.t.Helper()
	signal(f.t, pid, syscall.SIGSTOP)
	f.await("stopped process", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
}

// An executor that is alive and does not answer has its task: a host that is told of a failure starts a second one.
func TestRecoverSilent(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("mkfifo go; echo ready; read line < go; exit 7")
	handle := f.start(config)
	f.awaitOutput(config, "ready")
	pid := f.executor().Executor.PID
	f.restart()
	f.silence(pid)
	err := f.RecoverTask(t.Context(), handle)
	if err == nil {
		var status *driver.TaskStatus
		if status, err = f.InspectTask(t.Context(), config.ID); err == nil && status.State != driver.TaskRunning {
			t.Errorf("state %v, want running", status.State)
		}
	}
	signal(t, pid, syscall.SIGCONT)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(config.AllocDir, config.Name, "go"), []byte("\n"), 0))
	if exit := f.wait(config.ID); exit.Code != 7 || exit.Err != nil {
		t.Errorf("exit %+v, want 7", exit)
	}
}

func TestRecoverOwned(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("sleep 1000")
	handle := f.start(config)
	f.restart()
	lock := testkit.Value(os.Open(filepath.Join(f.executor().Folder, "owner.lock")))(t)
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	if err := f.RecoverTask(t.Context(), handle); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("recover what another process owns: %v, want %v", err, driver.ErrUnavailable)
	}
	must(t, lock.Close())
	must(t, f.RecoverTask(t.Context(), handle))
}

// An executor that does not answer cannot be asked to stop.
func TestKillSilentOrphan(t *testing.T) {
	f := newFixture(t, nil)
	f.start(f.shell("sleep 1000"))
	address := f.executor()
	f.restart()
	f.silence(address.Executor.PID)
	if killed, err := f.KillOrphans(t.Context()); err != nil || len(killed) != 1 {
		t.Errorf("killed %v, %v; want the one", killed, err)
	}
	for _, pid := range []int{address.Executor.PID, address.Main.PID} {
		f.await("end of process", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
	if _, err := os.Lstat(address.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the executor's directory: %v", err)
	}
}

// TestDestroySilent destroys a task by force whose executor does not answer: it is killed, and the task with it.
func TestDestroySilent(t *testing.T) {
	f := newFixture(t, nil)
	f.HurryStops()
	config := f.shell("sleep 1000")
	f.start(config)
	address := f.executor()
	f.silence(address.Executor.PID)
	testkit.NoError(t, f.DestroyTask(t.Context(), config.ID, true))
	for _, pid := range []int{address.Executor.PID, address.Main.PID} {
		f.await("end of process", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}

// TestSilentCallsAnswer holds that each call about a task whose executor was stopped answers within its bound, and that a
// stop ends the task within what hosts wait for it: the grace and 10 s.
func TestSilentCallsAnswer(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("trap '' TERM; sleep 1000; sleep 1000")
	f.start(config)
	address := f.executor()
	f.silence(address.Executor.PID)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := f.SignalTask(ctx, config.ID, "SIGHUP"); !errors.Is(err, driver.ErrSilent) {
		t.Errorf("signal: %v", err)
	}
	if _, err := f.ExecTask(ctx, config.ID, []string{"true"}, 0); !errors.Is(err, driver.ErrSilent) {
		t.Errorf("exec: %v", err)
	}
	const grace = 500 * time.Millisecond
	ctx, cancel = context.WithTimeout(t.Context(), grace+10*time.Second)
	defer cancel()
	if err := f.StopTask(ctx, config.ID, grace, "SIGTERM"); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := f.DestroyTask(ctx, config.ID, false); err != nil {
		t.Errorf("destroy: %v", err)
	}
	for _, pid := range []int{address.Executor.PID, address.Main.PID} {
		f.await("end of process", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}

// TestDestroySilentEnded destroys an ended task whose executor does not answer: nothing of it is left.
func TestDestroySilentEnded(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exit 3")
	f.start(config)
	f.wait(config.ID)
	address := f.executor()
	f.silence(address.Executor.PID)
	if err := f.DestroyTask(t.Context(), config.ID, false); err != nil {
		t.Error(err)
	}
	f.await("end of the executor", func() bool { return errors.Is(syscall.Kill(address.Executor.PID, 0), syscall.ESRCH) })
	if _, err := os.Lstat(address.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the executor's directory: %v", err)
	}
}
