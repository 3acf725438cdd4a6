// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
)

// markerName is a variable in the environment of every task, by which its processes are found afterwards.
const markerName = "TACHO_CONFORMANCE"

func markerOf(dir string) string { return filepath.Base(dir) }

// Env is what a case has: a driver, a folder, and tasks that are gone when it ends.
type Env struct {
	Driver

	subject Subject
	dir     string
	marker  string
	tasks   []*task
}

// task is a started task, or one that is about to be.
type task struct {
	*driver.TaskConfig
	handle *driver.TaskHandle
}

func (e *Env) open(ctx context.Context) error {
	d, err := e.subject.Open(ctx)
	if err != nil {
		return fmt.Errorf("open the driver: %w", err)
	}
	e.Driver = d
	return nil
}

// crash kills the driver and opens another one, which knows nothing.
func (e *Env) crash(ctx context.Context) error {
	if err := e.subject.Crash(ctx); err != nil {
		return fmt.Errorf("crash the driver: %w", err)
	}
	return e.open(ctx)
}

// end destroys what is left and looks whether that is so.
func (e *Env) end(ctx context.Context) error {
	var errs []error
	for _, t := range e.tasks {
		if err := e.DestroyTask(ctx, t.ID, true); err != nil && !errors.Is(err, driver.ErrTaskNotFound) {
			errs = append(errs, fmt.Errorf("destroy by force: %w", err))
		}
	}
	if err := await(ctx, 5*time.Second, func() bool { return len(e.processes()) == 0 }); err != nil {
		errs = append(errs, fmt.Errorf("processes of tasks are left: %v", e.processes()))
	}
	errs = append(errs, e.subject.Close(ctx))
	return errors.Join(errs...)
}

// shell returns a task that runs a script. It is not started.
func (e *Env) shell(ctx context.Context, script string) *task {
	return e.command(ctx, "/bin/sh", "-c", script)
}

// command returns a task that runs a command.
func (e *Env) command(ctx context.Context, command string, args ...string) *task {
	name := "task" + strconv.Itoa(len(e.tasks))
	t := &task{TaskConfig: &driver.TaskConfig{
		ID: e.marker + "/" + name + "/" + strconv.FormatInt(time.Now().UnixNano(), 36), Name: name,
		AllocID: "00000000-0000-0000-0000-000000000000", JobName: "conformance", JobID: "conformance",
		TaskGroupName: "group", Namespace: "default", NodeName: "node",
		AllocDir:  e.dir,
		Env:       map[string]string{markerName: e.marker, "PATH": os.Getenv("PATH")},
		Resources: &driver.Resources{Linux: &driver.LinuxResources{CPUShares: 100, MemoryLimitBytes: 64 << 20}},
	}}
	for _, dir := range []string{filepath.Join(name, "local"), filepath.Join("alloc", "logs")} {
		must(os.MkdirAll(filepath.Join(e.dir, dir), 0o777))
	}
	// Plain files stand for the host's FIFOs.
	t.StdoutPath, t.StderrPath = e.path(t, "stdout"), e.path(t, "stderr")
	for _, path := range []string{t.StdoutPath, t.StderrPath} {
		must(os.WriteFile(path, nil, 0o666))
	}
	t.DriverConfig = e.encode(ctx, command, args)
	e.tasks = append(e.tasks, t)
	return t
}

// encode makes a config block as a host does: by the driver's schema.
func (e *Env) encode(ctx context.Context, command string, args []string) []byte {
	spec := value(e.TaskConfigSchema(ctx))
	values := make([]cty.Value, len(args))
	for i, arg := range args {
		values[i] = cty.StringVal(arg)
	}
	vars := &hcl.EvalContext{Variables: map[string]cty.Value{
		"command": cty.StringVal(command), "args": cty.TupleVal(values),
	}}
	file, diags := hclsyntax.ParseConfig([]byte("command = command\nargs = args\n"), "config", hcl.InitialPos)
	if diags.HasErrors() {
		must(diags)
	}
	return value(host.Encode(spec, file.Body, vars))
}

// run starts a task that runs a script.
func (e *Env) run(ctx context.Context, script string) *task {
	t := e.shell(ctx, script)
	must(e.start(ctx, t))
	return t
}

func (e *Env) start(ctx context.Context, t *task) error {
	handle, err := e.StartTask(ctx, t.TaskConfig)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if handle.Config == nil || handle.Config.ID != t.ID {
		return fmt.Errorf("the handle is of another task: %+v", handle.Config)
	}
	t.handle = handle
	return nil
}

// wait waits for the end of a task.
func (e *Env) wait(ctx context.Context, t *task) *driver.ExitResult {
	return value(e.WaitTask(ctx, t.ID))
}

// path is a file in the task's folder, which is its working directory.
func (e *Env) path(t *task, name string) string { return filepath.Join(e.dir, t.Name, name) }

// awaitFile waits until a task has written a file, and returns what is in it.
func (e *Env) awaitFile(ctx context.Context, t *task, name string) string {
	var content []byte
	err := await(ctx, 20*time.Second, func() bool {
		var err error
		content, err = os.ReadFile(e.path(t, name))
		return err == nil && bytes.HasSuffix(content, []byte("\n"))
	})
	if err != nil {
		must(fmt.Errorf("the task wrote no file %s: %w", name, err))
	}
	return strings.TrimSpace(string(content))
}

// touch makes a file in the task's folder, for a script that waits for it.
func (e *Env) touch(t *task, name string) error { return os.WriteFile(e.path(t, name), nil, 0o644) }

// processes are the numbers of live processes of the case's tasks.
func (e *Env) processes() []string {
	folders, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	want := []byte(markerName + "=" + e.marker + "\x00")
	var found []string
	for _, environ := range folders {
		// Of zombies it is empty, and of others' processes it cannot be read.
		if content, err := os.ReadFile(environ); err == nil && bytes.Contains(content, want) {
			found = append(found, filepath.Base(filepath.Dir(environ)))
		}
	}
	return found
}

// await asks until the answer is yes.
func await(ctx context.Context, patience time.Duration, yes func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not in %s", patience))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// expect is an error where two values are not the same.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

// expectError is an error where err is not of a kind.
func expectError(what string, err, want error) error {
	switch {
	case errors.Is(err, want):
		return nil
	case err == nil:
		return fmt.Errorf("%s: no error, want %q", what, want.Error())
	}
	return fmt.Errorf("%s: %w, want %q", what, err, want.Error())
}
