// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
)

const (
	// recoveredAfter is how long after a recovery a host is told of it.
	recoveredAfter = 3 * time.Second
	// callAgain is the pause after a call that failed although the executor lives.
	callAgain = time.Second
)

// errQuiet ends a call because nothing has happened for a while; the executor notifies when something does.
var errQuiet = errors.New("nothing has happened")

// task is a started task, or one that was recovered.
type task struct {
	config *TaskConfig
	state  *driverState
	events *delivery
	log    hclog.Logger

	// warning is what a host has to know of a recovery; empty if nothing is unusual. Hosts keep few events of a task,
	// so an ordinary recovery has no event.
	warning string

	// recoveredAt is zero if this process has started the task.
	recoveredAt time.Time

	patience patience
	// loop may read the task in this process.
	loop *sampling.Loop
	// unreadable is why the executor samples the task and not the loop; nil if it does not.
	unreadable atomic.Pointer[error]

	// client is nil for a task whose executor was lost before this process came to it.
	client *client.Client

	told uint64 // sequence of the last of the executor's events that was passed on: of the goroutine that does it
	// passed is closed when all events were passed on, or cannot be any more; announced when the task has ended and the
	// listeners have its events.
	passed, announced chan struct{}

	// done is closed when the task has ended; the following are set then.
	done        chan struct{}
	exit        *ExitResult
	final       *record.Record // of a task whose executor was lost: nil, or its last totals
	completedAt time.Time

	cancel context.CancelFunc // ends work
	work   sync.WaitGroup

	confirmed atomic.Bool // the host knows of the task, see confirm

	destroying sync.Mutex // held while DestroyTask is at work
}

// follow waits for the task's end and passes on its events, until ctx is done.
func (t *task) follow(ctx context.Context) {
	ctx, t.cancel = context.WithCancel(ctx)
	if t.client == nil {
		close(t.passed)
		t.work.Go(func() { t.announce(ctx) })
		return
	}
	t.told = t.readPassed()
	t.work.Go(func() { t.watch(ctx) })
	if t.warning != "" {
		t.work.Go(func() { t.warnRecovered(ctx) })
	}
}

// announce closes announced when the listeners have the events of the ended task, or after a while.
func (t *task) announce(ctx context.Context) {
	defer close(t.announced)
	ctx, cancel := context.WithTimeout(ctx, announceLimit)
	defer cancel()
	select {
	case <-t.passed:
	case <-ctx.Done():
		return
	}
	t.events.awaitHandled(ctx)
}

// warnRecovered waits a little first: a host that has just started drops events of tasks that it has recovered and
// does not follow yet.
func (t *task) warnRecovered(ctx context.Context) {
	if pause(ctx, recoveredAfter); ctx.Err() == nil && t.running() {
		t.addEvent(time.Now(), t.warning, t.state.Attributes, nil)
	}
}

// unfollow ends what follow began.
func (t *task) unfollow() {
	if t.cancel != nil {
		t.cancel()
		t.work.Wait()
	}
}

// running reports whether the task has not ended.
func (t *task) running() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

// watch passes on what the executor says happened, from the first event that no host has received, and closes done when
// the task has ended, however that came about.
func (t *task) watch(ctx context.Context) {
	defer close(t.passed)
	report, whole, rested := t.log.Error, false, false
	for limit := t.patience.quiet; ; {
		changed := t.client.Changed() // before the calls, which can miss nothing that they do not answer
		attended, end := attend(ctx, changed, limit)
		err := t.passStream(ctx, attended)
		quiet := isQuiet(attended)
		end()
		switch {
		case quiet:
			limit *= 2
			if rested, err = t.rest(ctx, changed); rested {
				limit = t.patience.quiet
			}
		case err == nil: // the task has ended, and nothing comes any more
			err = t.awaitEnd(ctx)
			whole = err == nil
		}
		switch {
		case whole || ctx.Err() != nil:
			if t.running() {
				close(t.announced)
			}
			return
		case errors.Is(err, client.ErrLost):
			if t.running() {
				t.killLost(context.WithoutCancel(ctx))
				t.work.Go(func() { t.announce(ctx) })
			}
			return
		case err != nil:
			report("follow task", "error", err)
			report = t.log.Debug
			pause(ctx, callAgain)
		}
	}
}

// rest waits for the next change of a quiet task, unless it has ended or has had an event that was not passed on.
func (t *task) rest(ctx context.Context, changed <-chan struct{}) (rested bool, err error) {
	p, err := t.client.Progress(ctx)
	switch {
	case err != nil:
		return false, err
	case p.Ended:
		return false, t.awaitEnd(ctx)
	case p.Events > t.told:
		return false, nil
	}
	var due <-chan time.Time
	if t.patience.report > 0 {
		due = time.After(untilReport(time.Since(t.state.StartedAt), t.patience.report))
	}
	select {
	case <-changed:
	case <-t.client.Lost():
	case <-due:
		t.reportSoFar(ctx)
	case <-ctx.Done():
	}
	return true, nil
}

// awaitEnd asks how the task has ended.
func (t *task) awaitEnd(ctx context.Context) error {
	if !t.running() {
		return nil
	}
	exit, final, err := t.client.Wait(ctx)
	if exit == nil {
		return err
	}
	t.ended(exit, final, err)
	t.work.Go(func() { t.announce(ctx) })
	return nil
}

// attend returns a context for a call that waits for a change of the task. The call ends as quiet if nothing happens
// for a while and changes are notified: a connection without calls is closed. What it was notified of may have
// happened all the same: on a busy machine the call may not have got to the executor in that time, nor its answer
// here. The caller asks for the progress before it rests, and tries again for longer if there is more.
func attend(ctx context.Context, changed <-chan struct{}, limit time.Duration) (attended context.Context, end func()) {
	attended, cancel := context.WithCancelCause(ctx)
	if changed == nil {
		return attended, func() { cancel(nil) }
	}
	// Not a deadline: the executor would set a timer for it.
	timer := time.AfterFunc(limit, func() { cancel(errQuiet) })
	return attended, func() {
		timer.Stop()
		cancel(nil)
	}
}

func isQuiet(attended context.Context) bool { return errors.Is(context.Cause(attended), errQuiet) }

func (t *task) ended(exit *proto.Exit, final *record.Record, err error) {
	t.exit = &ExitResult{Code: int(exit.GetCode()), Signal: int(exit.GetSignal()), OOMKilled: exit.GetOomKilled()}
	if final != nil {
		t.exit.Retryable = final.Diagnosis.RetryReason()
		if d := &final.Diagnosis; d.Verdict == record.ExecutorLost { // it could still tell
			t.exit.Err = fmt.Errorf("%s: %s", record.ExecutorLost, d.Reason)
		}
		if note := t.loop.Note(t.config.ID); note != "" {
			final.Notes = append(final.Notes, note)
		}
		final.SetCommands(t.loop.Commands(t.config.ID, final.StartedAt))
		final.SetNetwork(t.loop.Network(t.config.ID))
		final.SetUncounted(t.whyUncounted())
	}
	t.loop.Forget(t.config.ID)
	t.final, t.completedAt = final, time.Unix(0, exit.GetEndedAtUnixNs())
	if err != nil {
		t.log.Error("final record of task", "error", err)
	}
	close(t.done)
}

// stop asks the task to end and returns when nothing is left of it. An executor that is long past the grace and does
// not answer, as one that was stopped or waits for a dead file system, is killed, and its task with it.
func (t *task) stop(ctx context.Context, signal syscall.Signal, grace time.Duration) error {
	for {
		patient, cancel := context.WithTimeout(ctx, grace+t.patience.overdue)
		err := t.askToStop(patient, signal, grace)
		deadline, _ := patient.Deadline()
		overdue := time.Until(deadline) < time.Second
		cancel()
		if err == nil || ctx.Err() != nil || !overdue {
			return err
		}
		if !t.isSilent(ctx) {
			continue // it waits for a process that the kernel does not end
		}
		t.log.Warn("kill an executor that does not answer", "task", t.config.Name, "pid", t.state.Address.Executor.PID)
		kill, cancel := context.WithTimeout(ctx, killTimeout)
		err = t.client.Kill(kill)
		cancel()
		if err != nil {
			return fmt.Errorf("stop task: %w", err)
		}
	}
}

// answers returns [ErrSilent] if the task's executor does not answer.
func (t *task) answers(ctx context.Context) error {
	if !t.isSilent(ctx) {
		return nil
	}
	return fmt.Errorf("%w: process %d", ErrSilent, t.state.Address.Executor.PID)
}

// isSilent reports whether the task's executor does not answer.
func (t *task) isSilent(ctx context.Context) bool {
	ask, cancel := context.WithTimeout(ctx, t.patience.silent)
	defer cancel()
	_, err := t.client.Progress(ask)
	return err != nil && ask.Err() != nil && ctx.Err() == nil
}

func (t *task) askToStop(ctx context.Context, signal syscall.Signal, grace time.Duration) error {
	if t.running() {
		if err := t.client.Stop(ctx, signal, grace); err != nil && !errors.Is(err, client.ErrLost) {
			return fmt.Errorf("stop task: %w", err)
		}
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop task: %w", context.Cause(ctx))
	}
}

// release ends the executor of an ended task and removes what it kept.
func (t *task) release(ctx context.Context) error {
	if t.client == nil {
		t.unfollow()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	// Hosts destroy a task as soon as they know of its end; the last events may still be on their way.
	select {
	case <-t.passed:
	case <-ctx.Done():
	}
	t.unfollow()
	err := t.client.Shutdown(ctx)
	switch {
	case err == nil:
		return errors.Join(t.client.Close(), client.RemoveFolder(t.state.Address.Folder))
	case errors.Is(err, client.ErrLost):
		// The directory stays if processes are left that the kernel does not end: it names them for a later cleanup.
		return errors.Join(t.client.Close(), client.KillTask(ctx, t.state.Address))
	}
	t.log.Warn("kill an executor that does not end", "task", t.config.Name, "error", err)
	return t.client.Abandon()
}

// detach gives up the connection; the task runs on.
func (t *task) detach() error {
	t.unfollow()
	if t.client == nil {
		return nil
	}
	return t.client.Close()
}
