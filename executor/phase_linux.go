// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"time"
)

// phase is where an executor is in its life. docs/executor-protocol.md has the transitions as a table, and a test
// compares the two. No child exists in waiting, refused and ending; in all others the reaper waits for one.
type phase int

const (
	// waiting is before Launch.
	waiting phase = iota
	// launching is during Launch.
	launching
	// canceled is during a Launch whose caller is gone: whatever comes of it is ended.
	canceled
	// refused is after a Launch that failed.
	refused
	// unconfirmed is while the task runs and its caller has not been heard of since Launch.
	unconfirmed
	// running is while the task runs.
	running
	// killing is while the task is being stopped, and the executor ends with it.
	killing
	// unseen is after the end of a task whose caller has not been heard of since Launch.
	unseen
	// exited is after the end of the task.
	exited
	// ending is the last: the process ends.
	ending
)

// String returns the name in the table.
// event is what happens to an executor.
type event int

const (
	// onLaunch is a call of Launch; onStarted and onFailed are its two results.
	onLaunch event = iota
	onStarted
	onFailed
	// onCall is any other call: its caller knows of the task.
	onCall
	onStop
	onShutdown
	// onCallerGone is the death of the process that started this one, or that it has given up its Launch.
	onCallerGone
	// onCallerAway is the same of a caller that has persisted the start, and comes back for its task.
	onCallerAway
	// onUnused is when launchLimit is over.
	onUnused
	// onTaskGone is when nothing is left of the task and its record is whole.
	onTaskGone
	// onEnd is what ends the executor with its task: the leash, a server that has ended.
	onEnd
	// onOverdue is when the task could not be killed in time.
	onOverdue
)

// String returns the name in the table.
// next returns the phase that an event leads to. ok is false for a call that is rejected, which changes nothing.
func (p phase) next(ev event) (next phase, ok bool) {
	switch ev {
	case onLaunch:
		return p.change(map[phase]phase{waiting: launching}), p == waiting
	case onStarted:
		return p.change(map[phase]phase{launching: unconfirmed, canceled: killing}), true
	case onFailed:
		return p.change(map[phase]phase{launching: refused, canceled: ending}), true
	case onCall:
		return p.change(map[phase]phase{unconfirmed: running, unseen: exited}), true
	case onStop:
		return p.change(map[phase]phase{unconfirmed: running, unseen: exited}), p != waiting && p != refused
	case onShutdown:
		rejected := p == launching || p == unconfirmed || p == running
		return p.change(map[phase]phase{waiting: ending, refused: ending, unseen: ending, exited: ending}), !rejected
	case onCallerGone:
		return p.change(map[phase]phase{
			waiting: ending, launching: canceled, refused: ending, unconfirmed: killing, unseen: ending,
		}), true
	case onCallerAway, onUnused:
		return p.change(map[phase]phase{waiting: ending, refused: ending}), true
	case onTaskGone:
		return p.change(map[phase]phase{unconfirmed: unseen, running: exited, killing: ending}), true
	case onEnd:
		return p.change(map[phase]phase{
			waiting: ending, launching: canceled, refused: ending, unconfirmed: killing, running: killing,
			unseen: ending, exited: ending,
		}), true
	case onOverdue:
		return p.change(map[phase]phase{canceled: ending, killing: ending}), true
	}
	return p, false
}

// change returns what changes has for a phase; without an entry nothing changes.
func (p phase) change(changes map[phase]phase) phase {
	if next, ok := changes[p]; ok {
		return next
	}
	return p
}

// endLimit bounds how long a killed task, or a start that was given up, holds the executor's end up: the kernel ends
// no process that waits for a disk or a network file system that does not answer.
const endLimit = 30 * time.Second

// on moves the executor to the phase that an event leads to. ok is false for a call that is rejected.
func (e *Executor) on(ev event) (now phase, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.phase
	now, ok = before.next(ev)
	if now == exited && e.withTask {
		now = ending
	}
	if ev == onStop && now == launching {
		e.cancelLaunch()
	}
	if now == before {
		return now, ok
	}
	e.phase = now
	switch now {
	case launching:
		e.unused.Stop()
	case refused:
		e.unused.Reset(launchLimit)
	case canceled:
		e.cancelLaunch()
		e.overdueAfterLocked(endLimit)
	case killing:
		e.overdueAfterLocked(endLimit)
	case running, exited:
		e.unwatchCaller()
	case ending:
		e.left = ev == onOverdue
		e.cancel()
	case waiting, unconfirmed, unseen:
	}
	return now, ok
}

// overdueAfterLocked sets the time after which the end of the executor waits no longer for its task.
func (e *Executor) overdueAfterLocked(limit time.Duration) {
	if e.overdue != nil {
		e.overdue.Stop()
	}
	e.overdue = time.AfterFunc(limit, func() { e.on(onOverdue) })
}

// endWith ends the executor after an event, and its task as stop says, which takes up to grace until it kills.
func (e *Executor) endWith(ev event, grace time.Duration, stop func(*task)) {
	if now, _ := e.on(ev); now != killing {
		return // there is no task, or Launch sees to it
	}
	e.mu.Lock()
	e.overdueAfterLocked(grace + endLimit)
	t := e.task
	e.mu.Unlock()
	stop(t)
}
