// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/wire"
)

// connections is how many sockets an executor has besides the one it listens on.
func connections(pid int) int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	n := -1
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// TestQuietTasks holds that nothing is connected to the executors of tasks of which nothing is new, and that whatever
// happens to one is known all the same; also where the first calls after a change do not get to the executor in time.
func TestQuietTasks(t *testing.T) {
	for _, test := range []struct {
		name      string
		recovered bool
		act       func(*fixture, *driver.TaskConfig, *wire.Address)
		want      driver.ExitResult
	}{
		{"ends", false, func(f *fixture, config *driver.TaskConfig, _ *wire.Address) {
			must(f.t, os.WriteFile(filepath.Join(config.AllocDir, config.Name, "go"), []byte("\n"), 0))
		}, driver.ExitResult{Code: 7}},
		{"has an event", false, func(f *fixture, _ *driver.TaskConfig, a *wire.Address) {
			events := f.events()
			signal(f.t, a.Main.PID, syscall.SIGSTOP)
			collect(f.t, events, "was stopped by SIGSTOP")
			signal(f.t, a.Main.PID, syscall.SIGKILL)
			collect(f.t, events, "SIGKILL")
		}, driver.ExitResult{Code: 137, Signal: 9}},
		{"is stopped", false, func(f *fixture, config *driver.TaskConfig, _ *wire.Address) {
			must(f.t, f.StopTask(f.t.Context(), config.ID, 0, "SIGKILL"))
		}, driver.ExitResult{Code: 137, Signal: 9}},
		{"loses its executor", false, func(f *fixture, _ *driver.TaskConfig, a *wire.Address) {
			signal(f.t, a.Executor.PID, syscall.SIGKILL)
		}, driver.ExitResult{Code: 137, Signal: 9}},
		{"is recovered", true, func(f *fixture, _ *driver.TaskConfig, a *wire.Address) {
			signal(f.t, a.Main.PID, syscall.SIGKILL)
		}, driver.ExitResult{Code: 137, Signal: 9}},
	} {
		for _, hurried := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hurried %t", test.name, hurried), func(t *testing.T) {
				f := newFixture(t, nil)
				hurry := func() {
					if hurried {
						f.HurryCalls()
					}
				}
				hurry()
				config := f.shell("mkfifo go; echo ready; read line < go; exit 7")
				handle := f.start(config)
				f.awaitOutput(config, "ready")
				if test.recovered {
					f.restart()
					hurry()
					must(t, f.RecoverTask(t.Context(), handle))
				}
				address := f.executor()
				f.await("end of all connections", func() bool { return connections(address.Executor.PID) == 0 })
				test.act(f, config, address)
				if exit := f.wait(config.ID); exit.Code != test.want.Code || exit.Signal != test.want.Signal {
					t.Errorf("exit %+v, want %+v", exit, test.want)
				}
			})
		}
	}
}
