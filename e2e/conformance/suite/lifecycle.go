// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

func lifecycleCases() []Case {
	return []Case{
		{"start and wait", exits("exit 0", driver.ExitResult{})},
		{"exit code", exits("exit 42", driver.ExitResult{Code: 42})},
		{"killed by a signal", exits("kill -USR1 $$; sleep 5", driver.ExitResult{Code: 128 + 10, Signal: 10})},
		{"wait, by many and afterwards", waitMany},
		{"wait is cancelled", waitCancelled},
		{"environment and folder", environment},
		{"output is kept", output},
		{"stop by a signal", stopBySignal},
		{"stop without a signal's name", stopDefault},
		{"stop escalates", stopEscalates},
		{"stop at once", stopAtOnce},
		{"nothing outlives a stopped task", stopDescendants},
		{"signal", signal},
		{"inspect", inspect},
		{"destroy by force", destroyByForce},
		{"many at once", manyAtOnce},
	}
}

// exits returns a case that runs a script and wants an exit.
func exits(script string, want driver.ExitResult) func(context.Context, *Env) error {
	return func(ctx context.Context, e *Env) error { return e.wantExit(ctx, e.run(ctx, script), want) }
}

func (e *Env) wantExit(ctx context.Context, t *task, want driver.ExitResult) error {
	exit, err := e.WaitTask(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	if exit.Code != want.Code || exit.Signal != want.Signal || exit.OOMKilled != want.OOMKilled || exit.Err != nil {
		return fmt.Errorf("exit %+v, want %+v", *exit, want)
	}
	return nil
}

func waitMany(ctx context.Context, e *Env) error {
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 3")
	var waiting sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		waiting.Go(func() { errs[i] = e.wantExit(ctx, t, driver.ExitResult{Code: 3}) })
	}
	must(e.touch(t, "go"))
	waiting.Wait()
	return errors.Join(errors.Join(errs...), e.wantExit(ctx, t, driver.ExitResult{Code: 3}))
}

func waitCancelled(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if exit, err := e.WaitTask(short, t.ID); err == nil {
		return fmt.Errorf("wait returned %+v for a running task", exit)
	}
	return expect("state", value(e.InspectTask(ctx, t.ID)).State, driver.TaskRunning)
}

func environment(ctx context.Context, e *Env) error {
	t := e.shell(ctx, `{ echo "$GREETING"; pwd; } > out.new; mv out.new out`)
	t.Env["GREETING"] = "hello world"
	must(e.start(ctx, t))
	got := e.awaitFile(ctx, t, "out")
	// The folder of a task with a file system of its own has another name.
	greeting, folder, _ := strings.Cut(got, "\n")
	must(expect("GREETING", greeting, "hello world"))
	if value(e.Capabilities(ctx)).GetFsIsolation() != drivers.DriverCapabilities_NONE {
		return nil
	}
	return expect("folder", folder, filepath.Join(e.dir, t.Name))
}

func output(ctx context.Context, e *Env) error {
	t := e.run(ctx, "echo to stdout; echo to stderr >&2")
	e.wait(ctx, t)
	for _, stream := range []string{"stdout", "stderr"} {
		path := e.path(t, stream)
		if value(e.Capabilities(ctx)).GetDisableLogCollection() {
			path = filepath.Join(e.dir, "alloc", "logs", t.Name+"."+stream+".0")
		}
		must(expect(path, string(value(os.ReadFile(path))), "to "+stream+"\n"))
	}
	return nil
}

// trapping starts a script that writes ready once its traps are set.
func trapping(ctx context.Context, e *Env, script string) *task {
	t := e.run(ctx, script)
	e.awaitFile(ctx, t, "ready")
	return t
}

func stopBySignal(ctx context.Context, e *Env) error {
	t := trapping(ctx, e, "trap 'exit 7' HUP; echo > ready; while :; do sleep 0.05; done")
	must(e.StopTask(ctx, t.ID, 20*time.Second, "SIGHUP"))
	if left := e.processes(); len(left) > 0 {
		return fmt.Errorf("stop answered while processes are left: %v", left)
	}
	return e.wantExit(ctx, t, driver.ExitResult{Code: 7})
}

func stopDefault(ctx context.Context, e *Env) error {
	t := trapping(ctx, e, "trap 'exit 8' INT; echo > ready; while :; do sleep 0.05; done")
	must(e.StopTask(ctx, t.ID, 20*time.Second, ""))
	return e.wantExit(ctx, t, driver.ExitResult{Code: 8})
}

func stopEscalates(ctx context.Context, e *Env) error {
	t := trapping(ctx, e, "trap '' TERM INT; echo > ready; while :; do sleep 0.05; done")
	const grace = 300 * time.Millisecond
	began := time.Now()
	must(e.StopTask(ctx, t.ID, grace, "SIGTERM"))
	if took := time.Since(began); took < grace || took > 10*time.Second {
		return fmt.Errorf("stopped after %s, its time was %s", took, grace)
	}
	return e.wantExit(ctx, t, driver.ExitResult{Code: 128 + 9, Signal: 9})
}

func stopAtOnce(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	must(e.StopTask(ctx, t.ID, 0, "SIGTERM"))
	exit := e.wait(ctx, t)
	if exit.Signal == 0 {
		return fmt.Errorf("exit %+v of a killed task", *exit)
	}
	return e.StopTask(ctx, t.ID, 0, "SIGTERM") // of an ended task: nothing to do
}

func stopDescendants(ctx context.Context, e *Env) error {
	const script = `trap '' HUP
		setsid sh -c 'trap "" TERM INT HUP; echo > one; while :; do sleep 0.05; done' &
		( ( trap '' TERM INT; echo > two; while :; do sleep 0.05; done ) & )
		wait`
	t := e.run(ctx, script)
	for _, name := range []string{"one", "two"} {
		e.awaitFile(ctx, t, name)
	}
	began := time.Now()
	must(e.StopTask(ctx, t.ID, 100*time.Millisecond, "SIGTERM"))
	if left := e.processes(); len(left) > 0 {
		return fmt.Errorf("stop answered while processes are left: %v", left)
	}
	// What outlives the main process has the same time, and no more.
	if took := time.Since(began); took > 3*time.Second {
		return fmt.Errorf("stopped after %s, its time was 100 ms", took)
	}
	return nil
}

func signal(ctx context.Context, e *Env) error {
	if !value(e.Capabilities(ctx)).GetSendSignals() {
		return skip("does not send signals")
	}
	t := trapping(ctx, e, "trap 'echo > got' USR2; echo > ready; while :; do sleep 0.05; done")
	must(e.SignalTask(ctx, t.ID, "SIGUSR2"))
	e.awaitFile(ctx, t, "got")
	return nil
}

func inspect(ctx context.Context, e *Env) error {
	before := time.Now().Add(-time.Minute)
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 5")
	status := value(e.InspectTask(ctx, t.ID))
	if status.ID != t.ID || status.Name != t.Name || status.State != driver.TaskRunning || status.StartedAt.Before(before) {
		return fmt.Errorf("status of a running task: %+v", status)
	}
	must(e.touch(t, "go"))
	e.wait(ctx, t)
	status = value(e.InspectTask(ctx, t.ID))
	if status.State != driver.TaskExited || status.Exit == nil || status.Exit.Code != 5 || status.CompletedAt.Before(status.StartedAt) {
		return fmt.Errorf("status of an ended task: %+v, exit %+v", status, status.Exit)
	}
	return nil
}

func destroyByForce(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	if err := e.DestroyTask(ctx, t.ID, false); err == nil {
		return errors.New("a running task was destroyed without force")
	}
	must(e.DestroyTask(ctx, t.ID, true))
	if left := e.processes(); len(left) > 0 {
		return fmt.Errorf("destroyed while processes are left: %v", left)
	}
	return expectError("destroy again", e.DestroyTask(ctx, t.ID, true), driver.ErrTaskNotFound)
}

func manyAtOnce(ctx context.Context, e *Env) error {
	const many = 20
	tasks := make([]*task, many)
	for i := range tasks {
		tasks[i] = e.shell(ctx, "exit "+strconv.Itoa(i))
	}
	var working sync.WaitGroup
	errs := make([]error, many)
	for i, t := range tasks {
		working.Go(func() {
			if errs[i] = e.start(ctx, t); errs[i] == nil {
				errs[i] = e.wantExit(ctx, t, driver.ExitResult{Code: i})
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}
