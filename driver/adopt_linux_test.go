// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"errors"
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

// executors lists what is in the runtime directory.
func (f *fixture) executors() []*wire.Address {
	f.t.Helper()
	all := testkit.Value(client.List(f.options.Config.RuntimeDir))(f.t)
	return all
}

// TestAdoptTask finds tasks without their handles, as a host does that was killed before it had persisted them.
func TestAdoptTask(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		// before and after are done to the executor while no driver is there, and once one is.
		before, after func(*fixture, *wire.Address)
		want          driver.ExitResult
	}{
		"running": {"sleep 0.5; exit 3", nil, nil, driver.ExitResult{Code: 3}},
		"ended": {"exit 4", func(_ *fixture, a *wire.Address) {
			for syscall.Kill(a.Main.PID, 0) == nil {
				<-time.After(time.Millisecond) // it ends in another process
			}
		}, nil, driver.ExitResult{Code: 4}},
		"silent": {"exec sleep 1000", func(f *fixture, a *wire.Address) { f.silence(a.Executor.PID) }, func(_ *fixture, a *wire.Address) {
			_ = syscall.Kill(a.Main.PID, syscall.SIGTERM)
			_ = syscall.Kill(a.Executor.PID, syscall.SIGCONT)
		}, driver.ExitResult{Code: 143, Signal: 15}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			config := f.shell(test.script)
			config.Persisted = true
			f.start(config)
			address := f.executors()[0]
			if address.AllocID != config.AllocID || address.Task != config.Name || !address.Persisted {
				t.Errorf("the executor is that of %+v", address.Owner)
			}
			must(t, f.Close())
			if test.before != nil {
				test.before(f, address)
			}
			f.open()
			handle := testkit.Value(f.AdoptTask(t.Context(), config))(t)
			if killed, err := f.KillOrphans(t.Context()); err != nil || len(killed) > 0 {
				t.Errorf("killed %v, %v", killed, err)
			}
			if test.after != nil {
				test.after(f, address)
			}
			if exit := f.wait(config.ID); exit.Code != test.want.Code || exit.Signal != test.want.Signal || exit.Err != nil {
				t.Errorf("exit %+v, want %+v", exit, test.want)
			}
			if err := f.RecoverTask(t.Context(), handle); err != nil {
				t.Errorf("recover by the handle: %v", err)
			}
		})
	}
}

// TestAdoptTaskThatWasNotStarted has nothing of a start, an executor that died in it, and one that died after it.
func TestAdoptTaskThatWasNotStarted(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exec sleep 1000")
	if _, err := f.AdoptTask(t.Context(), config); !errors.Is(err, driver.ErrTaskNotFound) {
		t.Errorf("nothing was started: %v", err)
	}
	config.Persisted = true
	f.start(config)
	address := f.executors()[0]
	must(t, f.Close())
	must(t, syscall.Kill(address.Executor.PID, syscall.SIGKILL))
	f.open()
	if _, err := f.AdoptTask(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if exit := f.wait(config.ID); exit.Err == nil {
		t.Errorf("exit %+v, want one of a lost executor", exit)
	}
	testkit.NoError(t, f.DestroyTask(t.Context(), config.ID, true))

	// As if it had died before the fork.
	address.Main.PID = 0
	must(t, errors.Join(os.Mkdir(address.Folder, 0o700), address.Write()))
	if _, err := f.AdoptTask(t.Context(), config); !errors.Is(err, driver.ErrTaskNotFound) {
		t.Errorf("it died before the fork: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(f.options.Config.RuntimeDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestStartEndsAnEarlierStart starts a task again whose host has lost the first handle, under another configuration.
func TestStartEndsAnEarlierStart(t *testing.T) {
	for name, known := range map[string]bool{"by another driver": false, "by this driver": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.options.Remote = true
			f.restart()
			first := f.shell("exec sleep 1000")
			f.start(first)
			other := f.shell("exec sleep 1000")
			f.start(other)
			if !known {
				f.restart()
			}
			second := *first
			second.ID += "-again"
			f.start(&second)
			var alive []string
			for _, address := range f.executors() {
				if client.Alive(*address) {
					alive = append(alive, address.Task)
				}
			}
			if len(alive) != 2 || alive[0] == alive[1] {
				t.Errorf("executors of %v, want one of each task", alive)
			}
			if _, err := f.KillOrphans(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExecutorDirectoryRemoved holds that a task that ends because the directory of its executor was removed, or the
// socket in it, is told to have ended of that, and not only that a process died.
func TestExecutorDirectoryRemoved(t *testing.T) {
	for name, removed := range map[string]func(*wire.Address) string{
		"directory": func(a *wire.Address) string { return a.Folder },
		"socket":    func(a *wire.Address) string { return a.Socket },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			config := f.shell("echo ready; sleep 1000")
			f.start(config)
			f.awaitOutput(config, "ready")
			_ = os.RemoveAll(removed(f.executors()[0])) // the executor may write to its log meanwhile
			if exit := f.wait(config.ID); exit.Err == nil || !strings.Contains(exit.Err.Error(), "was removed") {
				t.Errorf("exit %+v, want why the executor ended", exit)
			}
		})
	}
}
