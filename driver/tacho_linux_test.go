// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/testkit"
)

// fixture is a driver with a place for its tasks.
type fixture struct {
	*driver.Tacho
	t       *testing.T
	dir     string
	options driver.Options
	tasks   int
}

// newFixture makes a test parallel to others: a fixture shares nothing with them.
func newFixture(t *testing.T, change func(*driver.Config)) *fixture {
	t.Helper()
	t.Parallel()
	// Short: the path of a unix socket is limited to 107 bytes.
	dir := testkit.Value(os.MkdirTemp("/tmp", "tacho"))(t)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	config := driver.DefaultConfig()
	config.RuntimeDir = filepath.Join(dir, "run")
	config.LogCollection = driver.LogsByHost
	config.Enforce = false
	if change != nil {
		change(&config)
	}
	f := &fixture{t: t, dir: dir, options: driver.Options{
		Config: config, Version: "0.0.0-test", Logger: hclog.New(&hclog.LoggerOptions{Output: testOutput{t}, Level: hclog.Warn}),
	}}
	f.open()
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func (f *fixture) open() { f.Tacho = driver.New(f.options) }

// restart is what remains of a driver whose process was killed: another one, with the handles that a host keeps.
func (f *fixture) restart() {
	f.t.Helper()
	must(f.t, f.Close())
	f.open()
}

type testOutput struct{ t *testing.T }

func (o testOutput) Write(p []byte) (int, error) {
	o.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// shell is a task that runs a script, in a directory of its own.
func (f *fixture) shell(script string) *driver.TaskConfig {
	f.t.Helper()
	f.tasks++
	name := fmt.Sprintf("task%d", f.tasks)
	alloc := filepath.Join(f.dir, "alloc")
	for _, dir := range []string{filepath.Join(alloc, name, "local"), filepath.Join(alloc, "alloc", "logs")} {
		must(f.t, os.MkdirAll(dir, 0o755))
	}
	return &driver.TaskConfig{
		// Names of cgroups are made of it: they must not be those of another run.
		ID: filepath.Base(f.dir) + "/" + name, Name: name, AllocID: "alloc", AllocDir: alloc,
		Env:          map[string]string{"PATH": os.Getenv("PATH"), "SECRET_TOKEN": "hush", "GREETING": "hello"},
		DriverConfig: msgpack(f.t, map[string]any{"command": "sh", "args": []string{"-c", script}}),
		StdoutPath:   filepath.Join(alloc, name, "stdout"), StderrPath: filepath.Join(alloc, name, "stderr"),
	}
}

// start starts a task, which is destroyed at the end of the test.
func (f *fixture) start(config *driver.TaskConfig) *driver.TaskHandle {
	f.t.Helper()
	handle := testkit.Value(f.StartTask(f.t.Context(), config))(f.t)
	f.t.Cleanup(func() {
		err := f.DestroyTask(context.Background(), config.ID, true)
		if err != nil && !errors.Is(err, driver.ErrTaskNotFound) {
			f.t.Error(err)
		}
	})
	return handle
}

func (f *fixture) wait(id string) *driver.ExitResult {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	exit := testkit.Value(f.WaitTask(ctx, id))(f.t)
	return exit
}

// output is what a task wrote to its standard output.
func (f *fixture) output(config *driver.TaskConfig) string {
	f.t.Helper()
	text := testkit.Value(os.ReadFile(config.StdoutPath))(f.t)
	return string(text)
}

func TestExit(t *testing.T) {
	f := newFixture(t, nil)
	for _, test := range []struct {
		name, script string
		want         driver.ExitResult
	}{
		{"success", "exit 0", driver.ExitResult{}},
		{"failure", "exit 3", driver.ExitResult{Code: 3}},
		{"signal", "kill -USR1 $$", driver.ExitResult{Code: 138, Signal: 10}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := f.shell(test.script)
			f.start(config)
			testkit.Diff(t, "exit", &test.want, f.wait(config.ID))
			status := testkit.Value(f.InspectTask(t.Context(), config.ID))(t)
			if status.State != driver.TaskExited || status.CompletedAt.Before(status.StartedAt) || status.StartedAt.IsZero() {
				t.Errorf("status after the end: %+v", status)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	f := newFixture(t, func(c *driver.Config) { c.DeniedEnv = []string{"SECRET_*"} })
	config := f.shell("env | sort; pwd")
	config.DeviceEnv = map[string]string{"GREETING": "from the device"}
	f.start(config)
	if exit := f.wait(config.ID); !exit.Successful() {
		t.Fatalf("exit %+v", exit)
	}
	got := f.output(config)
	if !strings.Contains(got, "GREETING=from the device\n") || strings.Contains(got, "SECRET") {
		t.Errorf("environment:\n%s", got)
	}
	if want := filepath.Join(config.AllocDir, config.Name) + "\n"; !strings.HasSuffix(got, want) {
		t.Errorf("not in the directory %s:\n%s", want, got)
	}
}

func TestStopEscalates(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("trap '' TERM; echo ready; (trap '' TERM; sleep 1000) & wait")
	f.start(config)
	f.awaitOutput(config, "ready")
	began := time.Now()
	must(t, f.StopTask(t.Context(), config.ID, 200*time.Millisecond, "SIGTERM"))
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("killed after %s, before its time was up", took)
	}
	if exit := f.wait(config.ID); exit.Signal != 9 || exit.Code != 137 {
		t.Errorf("exit %+v, want killed", exit)
	}
}

// awaitOutput waits until the task has written a text: the file's growth is the only sign there is.
func (f *fixture) awaitOutput(config *driver.TaskConfig, text string) {
	f.t.Helper()
	f.await("output "+text, func() bool {
		content, err := os.ReadFile(config.StdoutPath)
		return err == nil && strings.Contains(string(content), text)
	})
}

// await asks until the answer is yes.
func (f *fixture) await(what string, yes func() bool) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("no %s in a minute", what)
		}
	}
}

func TestUnknownTask(t *testing.T) {
	f := newFixture(t, nil)
	ctx := t.Context()
	calls := map[string]func() error{
		"wait":    func() error { _, err := f.WaitTask(ctx, "x"); return err },
		"stop":    func() error { return f.StopTask(ctx, "x", time.Second, "") },
		"destroy": func() error { return f.DestroyTask(ctx, "x", true) },
		"inspect": func() error { _, err := f.InspectTask(ctx, "x"); return err },
		"signal":  func() error { return f.SignalTask(ctx, "x", "SIGHUP") },
		"stats":   func() error { _, err := f.TaskStats(ctx, "x", time.Second); return err },
		"exec":    func() error { _, err := f.ExecTask(ctx, "x", []string{"true"}, time.Second); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, driver.ErrTaskNotFound) {
			t.Errorf("%s: %v, want %v", name, err, driver.ErrTaskNotFound)
		}
	}
}

func TestStartRefused(t *testing.T) {
	f := newFixture(t, func(c *driver.Config) { c.DeniedUIDs = driver.IDRanges{{First: 1, Last: 10}} })
	running := f.shell("sleep 1000")
	f.start(running)
	for _, test := range []struct {
		name   string
		change func(*driver.TaskConfig)
		want   error
	}{
		{"no id", func(c *driver.TaskConfig) { c.ID = "" }, driver.ErrInvalid},
		{"same id", func(c *driver.TaskConfig) { c.ID = running.ID }, driver.ErrTaskExists},
		{"no config", func(c *driver.TaskConfig) { c.DriverConfig = nil }, driver.ErrInvalid},
		{"garbage", func(c *driver.TaskConfig) { c.DriverConfig = []byte("\xc1garbage") }, driver.ErrInvalid},
		{"denied user", func(c *driver.TaskConfig) { c.User = "5" }, driver.ErrInvalid},
		{"mounts", func(c *driver.TaskConfig) { c.Mounts = []driver.Mount{{TaskPath: "/x"}} }, driver.ErrNotSupported},
		{"no command", func(c *driver.TaskConfig) {
			c.DriverConfig = msgpack(t, map[string]any{"command": "no-such-command"})
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := f.shell("true")
			test.change(config)
			_, err := f.StartTask(t.Context(), config)
			if err == nil {
				t.Fatal("started")
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if recoverable, known := driver.IsRecoverable(err); !known || recoverable {
				t.Errorf("%v: recoverable %t, known %t; want permanent", err, recoverable, known)
			}
		})
	}
	if folders, err := os.ReadDir(f.options.Config.RuntimeDir); err != nil || len(folders) != 1 {
		t.Errorf("directories of executors: %v, %v; want the running task's only", folders, err)
	}
}

func TestDestroy(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("sleep 1000")
	f.start(config)
	if err := f.DestroyTask(t.Context(), config.ID, false); !errors.Is(err, driver.ErrTaskRunning) {
		t.Errorf("destroy a running task: %v", err)
	}
	var destroying sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		destroying.Go(func() { errs[i] = f.DestroyTask(context.Background(), config.ID, true) })
	}
	destroying.Wait()
	done := 0
	for _, err := range errs {
		switch {
		case err == nil:
			done++
		case !errors.Is(err, driver.ErrTaskNotFound):
			t.Errorf("destroy by force: %v", err)
		}
	}
	if done != 1 {
		t.Errorf("destroyed %d times", done)
	}
	if folders, err := os.ReadDir(f.options.Config.RuntimeDir); err != nil || len(folders) != 0 {
		t.Errorf("directories of executors left: %v, %v", folders, err)
	}
}

func TestRecover(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("mkfifo go; echo ready; read line < go; exit 7")
	handle := f.start(config)
	f.awaitOutput(config, "ready")
	f.restart()
	if _, err := f.InspectTask(t.Context(), config.ID); !errors.Is(err, driver.ErrTaskNotFound) {
		t.Fatalf("a new driver knows the task: %v", err)
	}
	for range 2 { // the second time does nothing
		must(t, f.RecoverTask(t.Context(), handle))
	}
	fifo := testkit.Value(os.OpenFile(filepath.Join(config.AllocDir, config.Name, "go"), os.O_WRONLY, 0))(t)
	if _, err := fifo.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	must(t, fifo.Close())
	if exit := f.wait(config.ID); exit.Code != 7 {
		t.Errorf("exit %+v, want 7", exit)
	}
	f.restart()
	must(t, f.RecoverTask(t.Context(), handle))
	if exit := f.wait(config.ID); exit.Code != 7 {
		t.Errorf("exit after the driver came back late: %+v, want 7", exit)
	}
}

// TestRecoverDestroyed is about a host that keeps the handle of a task that it has destroyed.
func TestRecoverDestroyed(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exit 0")
	handle := f.start(config)
	f.wait(config.ID)
	must(t, f.DestroyTask(t.Context(), config.ID, false))
	f.restart()
	if err := f.RecoverTask(t.Context(), handle); !errors.Is(err, driver.ErrTaskNotFound) {
		t.Errorf("recovered: %v", err)
	}
	if status, err := f.InspectTask(t.Context(), config.ID); !errors.Is(err, driver.ErrTaskNotFound) {
		t.Errorf("it is known again: %+v, %v", status, err)
	}
	stream := f.events()
	other := f.shell("exit 3")
	f.start(other)
	for _, event := range collect(t, stream, "exit code 3") {
		if event.TaskID == config.ID {
			t.Errorf("told of the destroyed task: %s", event.Message)
		}
	}
}

func TestRecoverRefuses(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("sleep 1000")
	good := f.start(config)
	f.restart()
	for _, test := range []struct {
		name   string
		change func(*driver.TaskHandle, map[string]any)
		want   error // nil for any
	}{
		{"another version", func(h *driver.TaskHandle, _ map[string]any) { h.Version = 99 }, nil},
		{"garbage", func(h *driver.TaskHandle, _ map[string]any) { h.DriverState = []byte("garbage") }, nil},
		{"nothing", func(h *driver.TaskHandle, _ map[string]any) { h.DriverState = nil }, nil},
		{"another PID namespace", func(_ *driver.TaskHandle, address map[string]any) {
			address["pid_namespace"] = "pid:[1]"
		}, driver.ErrUnavailable},
		{"another time namespace", func(_ *driver.TaskHandle, address map[string]any) {
			address["time_namespace"] = "time:[1]"
		}, driver.ErrUnavailable},
		{"another machine", func(_ *driver.TaskHandle, address map[string]any) {
			address["boot_id"], address["host"], address["machine_id"] = "another", "another", "another"
		}, driver.ErrUnavailable},
		{"another boot id, and it listens", func(_ *driver.TaskHandle, address map[string]any) {
			address["boot_id"] = "another"
		}, driver.ErrUnavailable},
		{"another boot", func(_ *driver.TaskHandle, address map[string]any) {
			address["boot_id"] = "00000000-0000-0000-0000-000000000000"
			address["folder"], address["socket"] = filepath.Join(f.dir, "elsewhere"), ""
		}, client.ErrOtherBoot},
	} {
		t.Run(test.name, func(t *testing.T) {
			handle := *good
			var state map[string]any
			must(t, json.Unmarshal(good.DriverState, &state))
			address, ok := state["address"].(map[string]any)
			if !ok {
				t.Fatalf("no address in %s", good.DriverState)
			}
			test.change(&handle, address)
			if string(handle.DriverState) == string(good.DriverState) {
				text := testkit.Value(json.Marshal(state))(t)
				handle.DriverState = text
			}
			if err := f.RecoverTask(t.Context(), &handle); err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("recovered, or not as it should: %v", err)
			}
		})
	}
	if err := f.RecoverTask(t.Context(), good); err != nil {
		t.Fatalf("after all that the task itself: %v", err)
	}
	must(t, f.StopTask(t.Context(), config.ID, 0, ""))
}
