// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"math/rand/v2"
	"time"
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
		return fmt.Errorf("restart interval: %v: must be positive to count %d attempts", p.Interval, p.Attempts)
	case p.Mode != RestartModeFail && p.Mode != RestartModeDelay:
		return fmt.Errorf("restart mode: %q: must be %q or %q", p.Mode, RestartModeFail, RestartModeDelay)
	}
	return nil
}

// RestartWindow counts the attempts of one interval. It is persisted with the task's state, by wall clock, so that a
// restart of the agent gives no task new attempts.
type RestartWindow struct {
	Start time.Time
	Used  int
}

// ending is why a task is not running any more: an error of its start, or an exit.
type ending struct {
	startErr error
	exit     Exit
	// requested says that the task was stopped in order to be started again.
	requested bool
}

// decision is what follows an ending.
type decision struct {
	// last is the task's last event; empty if the task is to be started again after delay.
	last   EventType
	delay  time.Duration
	reason string
}

// decide applies the policy to an ending and counts the attempt in the window.
func (p RestartPolicy) decide(w *RestartWindow, end ending, now time.Time) decision {
	switch {
	case end.requested:
		return decision{reason: "restart was requested"}
	case end.startErr != nil && !recoverable(end.startErr, false):
		return decision{last: EventNotRestarting, reason: "error was unrecoverable"}
	case end.startErr == nil && !p.OnSuccess && end.exit.Successful():
		return decision{last: EventCompleted, reason: "task completed"}
	case p.Attempts <= 0:
		return decision{last: EventNotRestarting, reason: "policy allows no restarts"}
	}
	// A start in the future is a clock that was set back: it must not stretch the window.
	if w.Start.After(now) || now.Sub(w.Start) >= p.Interval {
		*w = RestartWindow{Start: now}
	}
	w.Used++
	delay := p.Delay + rand.N(p.Delay/4+1)
	if w.Used <= p.Attempts {
		return decision{delay: delay, reason: "within policy"}
	}
	exceeded := fmt.Sprintf("exceeded %d attempts in %v, mode is %q", p.Attempts, p.Interval, p.Mode)
	if p.Mode == RestartModeDelay {
		return decision{delay: max(delay, w.Start.Add(p.Interval).Sub(now)), reason: exceeded}
	}
	return decision{last: EventNotRestarting, reason: exceeded}
}

// longest is the longest delay that decide returns.
func (p RestartPolicy) longest() time.Duration { return max(p.Delay+p.Delay/4, p.Interval) }
