// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

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
)

func lifecycleCases() []Case {
	return []Case{
		{"start and wait", startAndWait},
		{"exit code", exitCode},
		{"killed by a signal", killedBySignal},
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

// exits starts a script and wants an exit.
func exits(ctx context.Context, e *Env, script string, want driver.ExitResult) error {
	t, err := e.run(ctx, script)
	if err != nil {
		return err
	}
	return e.wantExit(ctx, t, want)
}

func (e *Env) wantExit(ctx context.Context, t *task, want driver.ExitResult) error {
	exit, err := e.wait(ctx, t)
	if err != nil {
		return err
	}
	if exit.Code != want.Code || exit.Signal != want.Signal || exit.OOMKilled != want.OOMKilled || exit.Err != nil {
		return fmt.Errorf("exit %+v, want %+v", *exit, want)
	}
	return nil
}

func startAndWait(ctx context.Context, e *Env) error {
	return exits(ctx, e, "exit 0", driver.ExitResult{})
}

func exitCode(ctx context.Context, e *Env) error {
	return exits(ctx, e, "exit 42", driver.ExitResult{Code: 42})
}

func killedBySignal(ctx context.Context, e *Env) error {
	return exits(ctx, e, "kill -USR1 $$; sleep 5", driver.ExitResult{Code: 128 + 10, Signal: 10})
}

func waitMany(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 3")
	if err != nil {
		return err
	}
	var waiting sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		waiting.Go(func() { errs[i] = e.wantExit(ctx, t, driver.ExitResult{Code: 3}) })
	}
	if err := e.touch(t, "go"); err != nil {
		return err
	}
	waiting.Wait()
	return errors.Join(errors.Join(errs...), e.wantExit(ctx, t, driver.ExitResult{Code: 3}))
}

func waitCancelled(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "sleep 1000")
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if exit, err := e.WaitTask(short, t.ID); err == nil {
		return fmt.Errorf("wait returned %+v for a running task", exit)
	}
	status, err := e.InspectTask(ctx, t.ID)
	if err != nil {
		return err
	}
	return expect("state", status.State, driver.TaskRunning)
}

func environment(ctx context.Context, e *Env) error {
	t, err := e.shell(ctx, `{ echo "$GREETING"; pwd; } > out.new; mv out.new out`)
	if err != nil {
		return err
	}
	t.Env["GREETING"] = "hello world"
	if err := e.start(ctx, t); err != nil {
		return err
	}
	got, err := e.awaitFile(ctx, t, "out")
	if err != nil {
		return err
	}
	// The folder of a task with a file system of its own has another name.
	greeting, folder, _ := strings.Cut(got, "\n")
	if err := expect("GREETING", greeting, "hello world"); err != nil {
		return err
	}
	c, err := e.Capabilities(ctx)
	if err != nil || c.FSIsolation != driver.FSNone {
		return err
	}
	return expect("folder", folder, filepath.Join(e.dir, t.Name))
}

func output(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "echo to stdout; echo to stderr >&2")
	if err != nil {
		return err
	}
	if _, err := e.wait(ctx, t); err != nil {
		return err
	}
	for _, stream := range []string{"stdout", "stderr"} {
		path := e.path(t, stream)
		c, err := e.Capabilities(ctx)
		if err != nil {
			return err
		}
		if c.DisableLogCollection {
			path = filepath.Join(e.dir, "alloc", "logs", t.Name+"."+stream+".0")
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := expect(path, string(content), "to "+stream+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// trapping starts a script that writes ready once its traps are set.
func trapping(ctx context.Context, e *Env, script string) (*task, error) {
	t, err := e.run(ctx, script)
	if err != nil {
		return nil, err
	}
	_, err = e.awaitFile(ctx, t, "ready")
	return t, err
}

func stopBySignal(ctx context.Context, e *Env) error {
	t, err := trapping(ctx, e, "trap 'exit 7' HUP; echo > ready; while :; do sleep 0.05; done")
	if err != nil {
		return err
	}
	if err := e.StopTask(ctx, t.ID, 20*time.Second, "SIGHUP"); err != nil {
		return err
	}
	if left := e.processes(); len(left) > 0 {
		return fmt.Errorf("stop answered while processes are left: %v", left)
	}
	return e.wantExit(ctx, t, driver.ExitResult{Code: 7})
}

func stopDefault(ctx context.Context, e *Env) error {
	t, err := trapping(ctx, e, "trap 'exit 8' INT; echo > ready; while :; do sleep 0.05; done")
	if err != nil {
		return err
	}
	if err := e.StopTask(ctx, t.ID, 20*time.Second, ""); err != nil {
		return err
	}
	return e.wantExit(ctx, t, driver.ExitResult{Code: 8})
}

func stopEscalates(ctx context.Context, e *Env) error {
	t, err := trapping(ctx, e, "trap '' TERM INT; echo > ready; while :; do sleep 0.05; done")
	if err != nil {
		return err
	}
	const grace = 300 * time.Millisecond
	began := time.Now()
	if err := e.StopTask(ctx, t.ID, grace, "SIGTERM"); err != nil {
		return err
	}
	if took := time.Since(began); took < grace || took > 10*time.Second {
		return fmt.Errorf("stopped after %s, its time was %s", took, grace)
	}
	return e.wantExit(ctx, t, driver.ExitResult{Code: 128 + 9, Signal: 9})
}

func stopAtOnce(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "sleep 1000")
	if err != nil {
		return err
	}
	if err := e.StopTask(ctx, t.ID, 0, "SIGTERM"); err != nil {
		return err
	}
	exit, err := e.wait(ctx, t)
	if err != nil {
		return err
	}
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
	t, err := e.run(ctx, script)
	if err != nil {
		return err
	}
	for _, name := range []string{"one", "two"} {
		if _, err := e.awaitFile(ctx, t, name); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := e.StopTask(ctx, t.ID, 100*time.Millisecond, "SIGTERM"); err != nil {
		return err
	}
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
	c, err := e.Capabilities(ctx)
	if err != nil {
		return err
	}
	if !c.SendSignals {
		return skip("does not send signals")
	}
	t, err := trapping(ctx, e, "trap 'echo > got' USR2; echo > ready; while :; do sleep 0.05; done")
	if err != nil {
		return err
	}
	if err := e.SignalTask(ctx, t.ID, "SIGUSR2"); err != nil {
		return err
	}
	_, err = e.awaitFile(ctx, t, "got")
	return err
}

func inspect(ctx context.Context, e *Env) error {
	before := time.Now().Add(-time.Minute)
	t, err := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 5")
	if err != nil {
		return err
	}
	status, err := e.InspectTask(ctx, t.ID)
	if err != nil {
		return err
	}
	if status.ID != t.ID || status.Name != t.Name || status.State != driver.TaskRunning || status.StartedAt.Before(before) {
		return fmt.Errorf("status of a running task: %+v", status)
	}
	if err := e.touch(t, "go"); err != nil {
		return err
	}
	if _, err := e.wait(ctx, t); err != nil {
		return err
	}
	if status, err = e.InspectTask(ctx, t.ID); err != nil {
		return err
	}
	if status.State != driver.TaskExited || status.Exit == nil || status.Exit.Code != 5 || status.CompletedAt.Before(status.StartedAt) {
		return fmt.Errorf("status of an ended task: %+v, exit %+v", status, status.Exit)
	}
	return nil
}

func destroyByForce(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "sleep 1000")
	if err != nil {
		return err
	}
	if err := e.DestroyTask(ctx, t.ID, false); err == nil {
		return errors.New("a running task was destroyed without force")
	}
	if err := e.DestroyTask(ctx, t.ID, true); err != nil {
		return err
	}
	if left := e.processes(); len(left) > 0 {
		return fmt.Errorf("destroyed while processes are left: %v", left)
	}
	return expectError("destroy again", e.DestroyTask(ctx, t.ID, true), driver.ErrTaskNotFound)
}

func manyAtOnce(ctx context.Context, e *Env) error {
	const many = 20
	tasks := make([]*task, many)
	for i := range tasks {
		var err error
		if tasks[i], err = e.shell(ctx, "exit "+strconv.Itoa(i)); err != nil {
			return err
		}
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
