// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestTakeover has a host that is started while its plugin hangs, or does not find it: it starts another, which recovers
// the task. The first is killed, and the task is not.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"the first plugin hangs": true, "the first plugin is well": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			config := encoded(t, driver.ConfigSchema(), fmt.Sprintf("runtime_dir = %q\n", filepath.Join(dir, "run")))
			open := func() *host.Process {
				p := testkit.Value(host.Start(t.Context(), host.Options{Path: binary(t), Logger: logger(t)}))(t)
				t.Cleanup(p.Close)
				testkit.Must(t, p.SetConfig(t.Context(), config, nil))
				return p
			}
			first := open()
			output := filepath.Join(dir, "output")
			handle := testkit.Value(first.StartTask(t.Context(), &driver.TaskConfig{
				ID: filepath.Base(dir), Name: "task", AllocID: "alloc", AllocDir: dir,
				StdoutPath: os.DevNull, StderrPath: os.DevNull,
				DriverConfig: encoded(t, driver.TaskSchema(), fmt.Sprintf(
					"command = \"/bin/sh\"\nargs = [\"-c\", \"trap 'echo stopped >> %s; exit 3' TERM; while :; do sleep 0.1; done\"]\n"+
						"work_dir = \"/\"\n", output)),
			}))(t)
			if hangs {
				testkit.Must(t, first.Signal(syscall.SIGSTOP))
				t.Cleanup(func() { _ = first.Signal(syscall.SIGCONT) }) // if it was not killed: Close waits for it
			}
			second := open()
			began := time.Now()
			testkit.Must(t, second.RecoverTask(t.Context(), handle))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("recovery took %s", took)
			}
			for began := time.Now(); !first.Exited() && time.Since(began) < 10*time.Second; {
				time.Sleep(10 * time.Millisecond)
			}
			testkit.Equal(t, first.Exited(), true, "the first plugin has ended")
			testkit.Must(t, second.StopTask(t.Context(), handle.Config.ID, 10*time.Second, "SIGTERM"))
			exit := testkit.Value(second.WaitTask(t.Context(), handle.Config.ID))(t)
			testkit.Equal(t, exit.Code, 3, "exit code of the task, which was never killed")
			testkit.Must(t, second.DestroyTask(context.Background(), handle.Config.ID, false))
		})
	}
}
