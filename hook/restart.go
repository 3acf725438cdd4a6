// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// RestartMode is what happens when a task has used all its restarts within one interval.
type RestartMode string

const (
	// RestartModeFail fails the task.
	RestartModeFail RestartMode = "fail"
	// RestartModeDelay starts it again when the interval is over.
	RestartModeDelay RestartMode = "delay"
)

// RestartPolicy decides whether an ended task is started again. It means what Nomad's restart block means:
// https://developer.hashicorp.com/nomad/docs/job-specification/restart
type RestartPolicy struct {
	// Attempts is how many restarts are allowed within Interval; with 0 a task is never restarted, whatever the mode.
	Attempts int
	// Interval is the span in which attempts are counted. The first begins with the task's first start, each later
	// one with the first end after the previous one is over.
	Interval time.Duration
	// Delay is the wait before a restart; up to a quarter of it is added at random.
	Delay time.Duration
	Mode  RestartMode
	// OnSuccess restarts a task that ended with code 0 as well: true for services and sidecars, false for batch.
	OnSuccess bool
}

// Validate reports the first invalid value.
func (p RestartPolicy) Validate() error {
	switch {
	case p.Attempts < 0:
		return fmt.Errorf("restart attempts: %d: must not be negative", p.Attempts)
	case p.Delay < 0:
		return fmt.Errorf("restart delay: %v: must not be negative", p.Delay)
	case p.Attempts > 0 && p.Interval <= 0:
		return fmt.Errorf("restart interval: %v: must be positive to count %s", p.Interval,
			procstats.Counted(p.Attempts, "attempt", "attempts"))
	case p.Mode != RestartModeFail && p.Mode != RestartModeDelay:
		return fmt.Errorf("restart mode: %q: must be %q or %q", p.Mode, RestartModeFail, RestartModeDelay)
	}
	return nil
}

const (
	// maxRetries bounds the retries in a row, and so those of a task that runs out of memory which others never return.
	maxRetries = 10
	// retriesForgotten is how long a task must have run for its next retry to be the first of a row.
	retriesForgotten = 10 * time.Minute
	firstRetryDelay  = time.Second
	maxRetryDelay    = 5 * time.Minute
)

// RestartWindow counts the attempts of one interval. It is persisted with the task's state, so that a restart of the
// agent gives no task new attempts.
type RestartWindow struct {
	// From is its start, which intervals are measured from.
	From Instant `json:",omitzero"`
	Used int
	// Retried counts the retries in a row: they are not attempts.
	Retried int `json:",omitempty"`
}

// ending is why a task is not running any more: an error of its start, or an exit.
type ending struct {
	startErr error
	exit     Exit
	// ran is the time from the task's start to its exit.
	ran time.Duration
	// retry allows a restart without an attempt if the exit is retryable.
	retry bool
	// requested says that the task was stopped in order to be started again.
	requested bool
}

// hostFault says what of the host has ended the task, or kept it from starting; empty if the task is at fault.
func (e ending) hostFault() string {
	switch {
	case e.startErr != nil:
		if fault, ok := errors.AsType[HostFault](e.startErr); ok && fault.HostFault() {
			return e.startErr.Error()
		}
	case e.exit.Lost != "":
		return e.exit.Lost
	case e.retry:
		return e.exit.Retryable
	}
	return ""
}

// cause returns on whose account the task is not running any more.
func (e ending) cause() Cause {
	switch {
	case e.startErr == nil:
		return cmp.Or(e.exit.Cause, e.exit.cause())
	case e.hostFault() != "":
		return CauseHost
	}
	return CauseTask
}

// decision is what follows an ending.
type decision struct {
	// last is the task's last event, for cause; empty if the task is to be started again after delay.
	last   EventType
	cause  Cause
	delay  time.Duration
	reason string
}

// decide applies the policy to an ending and counts the attempt in the window.
func (p RestartPolicy) decide(w *RestartWindow, end ending, now Instant) decision {
	switch {
	case end.requested:
		return decision{reason: "restart was requested"}
	case end.startErr != nil && end.hostFault() == "" && !recoverable(end.startErr, false):
		return decision{last: EventNotRestarting, reason: "error was unrecoverable"}
	case end.startErr == nil && !p.OnSuccess && end.exit.Successful():
		return decision{last: EventCompleted, reason: "task completed"}
	}
	d, retried := p.retry(w, end)
	if retried {
		return d
	}
	d = p.attempt(w, now)
	if fault := end.hostFault(); fault != "" {
		d.reason += fmt.Sprintf("; %s, and %s in a row did not help", fault, procstats.Counted(w.Retried, "retry", "retries"))
	} else {
		w.Retried = 0
	}
	return d
}

// retry restarts a task that is not at fault without counting an attempt. It reports false if it is at fault, or if
// it was retried too often in a row.
func (p RestartPolicy) retry(w *RestartWindow, end ending) (d decision, retried bool) {
	fault := end.hostFault()
	if fault == "" {
		return d, false
	}
	if end.ran >= retriesForgotten {
		w.Retried = 0
	}
	if w.Retried >= maxRetries {
		return d, false
	}
	d.delay = max(p.Delay, firstRetryDelay)
	longest := max(d.delay, maxRetryDelay)
	for range w.Retried {
		d.delay = min(2*d.delay, longest)
	}
	d.delay += rand.N(d.delay/4 + 1)
	w.Retried++
	d.reason = fmt.Sprintf("%s: retry %d of %d, which counts as no attempt", fault, w.Retried, maxRetries)
	return d, true
}

// attempt counts an attempt in the window and restarts the task while there are any.
func (p RestartPolicy) attempt(w *RestartWindow, now Instant) decision {
	if p.Attempts <= 0 {
		return decision{last: EventNotRestarting, reason: "policy allows no restarts"}
	}
	passed := now.Since(w.From)
	if passed >= p.Interval || w.From.Boot == "" && w.From.Wall.After(now.Wall) { // a clock that was set back
		w.From, w.Used, passed = now, 0, 0
	}
	w.Used++
	delay := p.Delay + rand.N(p.Delay/4+1)
	if w.Used <= p.Attempts {
		return decision{delay: delay, reason: "within policy"}
	}
	exceeded := fmt.Sprintf("exceeded %s in %v, mode is %q",
		procstats.Counted(p.Attempts, "attempt", "attempts"), p.Interval, p.Mode)
	if p.Mode == RestartModeDelay {
		return decision{delay: max(delay, p.Interval-passed), reason: exceeded}
	}
	return decision{last: EventNotRestarting, reason: exceeded}
}

const (
	firstRetry = time.Second
	longRetry  = 5 * time.Second
)

// backoff is a sequence of waits: 1, 2, 4, 5, 5 … seconds, each shortened at random by up to a quarter so that
// tasks that lost the same plugin do not retry at the same moment. The zero value is its beginning.
type backoff struct {
	last time.Duration
}

// next returns the next wait, never more than longRetry.
func (b *backoff) next() time.Duration {
	b.last = min(max(firstRetry, 2*b.last), longRetry)
	return b.last - rand.N(b.last/4+1)
}

// reopenFloor keeps a driver that closes every stream at once from being called in a loop, however short the interval.
const reopenFloor = 100 * time.Millisecond

// reopening is the retry policy of a stats stream, together with isFinal: a stream that ended is opened again after one
// interval, a failed opening is retried with backoff.
type reopening struct {
	interval time.Duration
	backoff  backoff
}

// next returns the wait before the stream is opened again, after it ended with err. It is established if it had a
// sample.
func (r *reopening) next(established bool, err error) time.Duration {
	if established {
		r.backoff = backoff{}
	} else if !errors.Is(err, io.EOF) {
		return r.backoff.next()
	}
	return max(r.interval, reopenFloor)
}

// isFinal reports whether opening the stream again is pointless.
func isFinal(err error) bool {
	return errors.Is(err, ErrStatsNotImplemented) || !recoverable(err, true)
}

// sleep waits for d and reports true, or false as soon as ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
