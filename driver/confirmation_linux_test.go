// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestEndUnconfirmed has a host that was killed after a start, and that knows of the task or does not, and a driver
// that died before the host could destroy an ended task.
func TestEndUnconfirmed(t *testing.T) {
	for name, test := range map[string]struct {
		// knows is what the host did with the task.
		knows func(*fixture, *driver.TaskHandle)
		// restart says that the driver was killed as well, and agent that its host persists starts.
		restart, agent bool
		// ends and forgotten say whether the executor is ended, at first and later.
		ends, forgotten bool
	}{
		"unknown":                       {nil, false, false, true, true},
		"unknown to the next driver":    {nil, true, false, true, true},
		"of an agent":                   {nil, true, true, false, false},
		"waited for":                    {waitOnce, false, false, false, false},
		"waited for by the next driver": {waitOnce, true, false, false, false},
		"waited for, and ended": {func(f *fixture, h *driver.TaskHandle) {
			waitOnce(f, h)
			if err := f.StopTask(f.t.Context(), h.Config.ID, 0, "SIGKILL"); err != nil {
				f.t.Error(err)
			}
		}, true, false, false, true},
		"ended, and being destroyed": {func(f *fixture, h *driver.TaskHandle) {
			waitOnce(f, h)
			err := f.StopTask(f.t.Context(), h.Config.ID, 0, "SIGKILL")
			if err := errors.Join(err, f.MarkDestroyed(h.Config.ID)); err != nil {
				f.t.Error(err)
			}
		}, true, false, true, true},
		"of a removed allocation": {func(f *fixture, h *driver.TaskHandle) {
			waitOnce(f, h)
			testkit.Must(f.t, os.RemoveAll(h.Config.AllocDir))
		}, false, false, false, false},
		"of a removed allocation, for the next driver": {func(f *fixture, h *driver.TaskHandle) {
			waitOnce(f, h)
			testkit.Must(f.t, os.RemoveAll(h.Config.AllocDir))
		}, true, false, true, true},
		"of a file system that is not there": {func(f *fixture, h *driver.TaskHandle) {
			h.Config.AllocDir += "/of/another"
			waitOnce(f, h)
		}, true, false, false, false},
		"recovered": {func(f *fixture, h *driver.TaskHandle) {
			f.restart()
			if err := f.RecoverTask(f.t.Context(), h); err != nil {
				f.t.Error(err)
			}
		}, true, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.options.Remote = true
			f.restart()
			config := f.shell("exec sleep 1000")
			config.Persisted = test.agent
			handle := f.start(config)
			address := f.executors()[0]
			// Whatever the wall clock says of the executor since.
			lock, set := filepath.Join(address.Folder, client.LockFile), time.Now()
			for _, step := range []time.Duration{0, 6 * time.Hour, -24 * time.Hour} {
				must(t, os.Chtimes(lock, set, set.Add(step)))
				f.EndUnconfirmed(t.Context(), time.Now().Add(-time.Minute), true)
			}
			must(t, os.Chtimes(lock, set, set.Add(6*time.Hour)))
			if !client.Alive(*address) {
				t.Fatal("a task that was started after the host had connected was ended")
			}
			if test.knows != nil {
				test.knows(f, handle)
			}
			if test.restart {
				f.restart()
			}
			for _, forget := range []bool{false, true} {
				want := test.ends || forget && test.forgotten
				unclaimed := test.restart && !test.agent && !test.forgotten // it runs, and the next driver does not know of it
				reported := f.EndUnconfirmed(t.Context(), time.Now(), forget)
				// A process that another test forks has the lock of the earlier driver until it executes its program.
				for began := time.Now(); time.Since(began) < 10*time.Second &&
					(reported != unclaimed || want && client.Alive(*address)); {
					reported = f.EndUnconfirmed(t.Context(), time.Now(), forget)
				}
				testkit.Equal(t, !client.Alive(*address), want, "forget: %t: the executor was ended", forget)
				testkit.Equal(t, reported, unclaimed, "forget: %t: it runs unclaimed", forget)
			}
			if _, err := f.KillOrphans(t.Context()); err != nil { // what is left, as it should be or not
				t.Error(err)
			}
		})
	}
}

// waitOnce is what a host does that has persisted a handle.
func waitOnce(f *fixture, h *driver.TaskHandle) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Millisecond)
	defer cancel()
	if _, err := f.WaitTask(ctx, h.Config.ID); !errors.Is(err, context.DeadlineExceeded) {
		f.t.Error(err)
	}
}
