// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/tachograph/tacho/driver"
)

func recoverCases() []Case {
	return []Case{
		{"recover what is known", recoverKnown},
		{"recover a running task", recoverRunning},
		{"recover a task that ended meanwhile", recoverEnded},
		{"recover a task that was ended before", recoverWaited},
		{"recover again and again", recoverOften},
		{"recover while waited for, watched and used", recoverInUse},
		{"recover garbage", recoverGarbage},
		{"recover a destroyed task", recoverDestroyed},
		{"counters go on after a recovery", recoverCounters},
		{"the executor is killed", executorKilled},
	}
}

func recoverKnown(ctx context.Context, e *Env) error {
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 6")
	for range 3 {
		must(e.RecoverTask(ctx, t.handle))
	}
	return errors.Join(e.touch(t, "go"), e.wantExit(ctx, t, driver.ExitResult{Code: 6}))
}

// recrash crashes the driver and recovers a task with the new one.
func (e *Env) recrash(ctx context.Context, t *task) error {
	must(e.crash(ctx))
	if _, err := e.InspectTask(ctx, t.ID); err == nil {
		return errors.New("the new driver knows the task: it did not crash")
	}
	if err := e.RecoverTask(ctx, t.handle); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

func recoverRunning(ctx context.Context, e *Env) error {
	t := e.run(ctx, "echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done; exit 6")
	pid := e.awaitFile(ctx, t, "pid")
	must(e.recrash(ctx, t))
	if _, err := os.Stat("/proc/" + pid); err != nil {
		return fmt.Errorf("the task's process: %w", err)
	}
	must(expect("state", value(e.InspectTask(ctx, t.ID)).State, driver.TaskRunning))
	return errors.Join(e.touch(t, "go"), e.wantExit(ctx, t, driver.ExitResult{Code: 6}))
}

func recoverEnded(ctx context.Context, e *Env) error {
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 6")
	must(e.subject.Crash(ctx))
	must(e.touch(t, "go"))
	if err := await(ctx, 10*time.Second, func() bool { return len(e.processes()) == 0 }); err != nil {
		return fmt.Errorf("the task does not end without its driver: %w", err)
	}
	must(e.open(ctx))
	if err := e.RecoverTask(ctx, t.handle); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return e.wantExit(ctx, t, driver.ExitResult{Code: 6})
}

func recoverWaited(ctx context.Context, e *Env) error {
	t := e.run(ctx, "exit 6")
	must(e.wantExit(ctx, t, driver.ExitResult{Code: 6}))
	must(e.recrash(ctx, t))
	return e.wantExit(ctx, t, driver.ExitResult{Code: 6})
}

func recoverOften(ctx context.Context, e *Env) error {
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 6")
	for range 5 {
		must(e.recrash(ctx, t))
	}
	return errors.Join(e.touch(t, "go"), e.wantExit(ctx, t, driver.ExitResult{Code: 6}))
}

// recoverInUse crashes the driver below open calls, which must all come back, and not well.
func recoverInUse(ctx context.Context, e *Env) error {
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done; exit 6")
	errs := make(chan error, 2)
	go func() {
		if exit, err := e.WaitTask(ctx, t.ID); err == nil {
			errs <- fmt.Errorf("wait said %+v of a task that runs on", exit)
			return
		}
		errs <- nil
	}()
	stream, err := e.NomadStats(ctx, t.ID, 100*time.Millisecond)
	if err == nil {
		_, err = stream.Recv()
	}
	go func() {
		for err == nil {
			_, err = stream.Recv()
		}
		errs <- nil
	}()
	old := e.Driver
	must(e.recrash(ctx, t))
	for range 2 {
		select {
		case err := <-errs:
			must(err)
		case <-time.After(10 * time.Second):
			return fmt.Errorf("a call of the crashed %T does not come back", old)
		}
	}
	return errors.Join(e.touch(t, "go"), e.wantExit(ctx, t, driver.ExitResult{Code: 6}))
}

func recoverGarbage(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	must(e.crash(ctx))
	for name, change := range map[string]func(*driver.TaskHandle){
		"no state":        func(h *driver.TaskHandle) { h.DriverState = nil },
		"garbage":         func(h *driver.TaskHandle) { h.DriverState = []byte("\xc1garbage") },
		"half a state":    func(h *driver.TaskHandle) { h.DriverState = h.DriverState[:len(h.DriverState)/2] },
		"another version": func(h *driver.TaskHandle) { h.Version = 1 << 20 },
	} {
		bad := *t.handle
		change(&bad)
		if err := e.RecoverTask(ctx, &bad); err == nil {
			// A driver with one version of its state need not look at the number.
			if name != "another version" {
				return fmt.Errorf("recovered from %s", name)
			}
			return nil
		}
	}
	if len(e.processes()) == 0 {
		return errors.New("the task is gone after that")
	}
	if err := e.RecoverTask(ctx, t.handle); err != nil {
		return fmt.Errorf("recover after that: %w", err)
	}
	return nil
}

func recoverDestroyed(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	must(e.DestroyTask(ctx, t.ID, true))
	if e.RecoverTask(ctx, t.handle) != nil {
		return nil // that is what it is to say
	}
	// As good: it is known again, and has ended.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	e.wait(ctx, t)
	return nil
}

func recoverCounters(ctx context.Context, e *Env) error {
	t := e.run(ctx, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo > done; exec sleep 1000")
	e.awaitFile(ctx, t, "done")
	_, before := openStats(ctx, e, t, time.Second)
	must(e.recrash(ctx, t))
	_, after := openStats(ctx, e, t, time.Second)
	now, then := after.GetAggResourceUsage(), before.GetAggResourceUsage()
	if percent := now.GetCpu().GetPercent(); percent > 50 {
		return fmt.Errorf("an idle task is said to use %f %% after the recovery", percent)
	}
	if peak, earlier := now.GetMemory().GetMaxUsage(), then.GetMemory().GetMaxUsage(); peak < earlier {
		return fmt.Errorf("the peak fell from %d to %d", earlier, peak)
	}
	if throttled, earlier := now.GetCpu().GetThrottledTime(), then.GetCpu().GetThrottledTime(); throttled < earlier {
		return fmt.Errorf("the throttled time fell from %d to %d ns", earlier, throttled)
	}
	return nil
}

// executorAttribute is where a driver with one helper process a task says which it is.
const executorAttribute = "executor.pid"

func executorKilled(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000 & setsid sleep 1000 & wait")
	pid, err := strconv.Atoi(value(e.InspectTask(ctx, t.ID)).Attributes[executorAttribute])
	if err != nil {
		return skip("names no executor (attribute %s)", executorAttribute)
	}
	executor := value(os.FindProcess(pid))
	must(errors.Join(executor.Kill(), executor.Release()))
	began := time.Now()
	if err := await(ctx, time.Second, func() bool { return len(e.processes()) == 0 }); err != nil {
		return fmt.Errorf("processes outlive their executor: %v", e.processes())
	}
	exit := e.wait(ctx, t)
	if exit.Successful() || time.Since(began) > 5*time.Second {
		return fmt.Errorf("exit %+v after %s", *exit, time.Since(began))
	}
	return nil
}
