// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
)

// exitLimit is how long the end of a task, and who asks for its commands, waits for records that are outstanding.
const exitLimit = 100 * time.Millisecond

// idleLimit is how long the programs stay loaded without a user.
const idleLimit = 2 * time.Second

// errEnded says that nothing is loaded any more.
var errEnded = errors.New("sampling has ended")

// errEndedBefore is of a task whose cgroup has been removed.
var errEndedBefore = errors.New("the task had ended before its processes could be watched")

// exitReader counts the ended processes of all tasks with one set of programs, which is loaded while there are any.
type exitReader struct {
	log hclog.Logger

	mu     sync.Mutex // guards following
	users  int
	reader *exits.Reader
	err    error       // why nothing is loaded: of the first try, if what is missing here stays missing
	idle   *time.Timer // unloads the programs; nil while they have users
}

// exitWatch is what has ended of one task since before its start, or since a stream of it was opened.
type exitWatch struct {
	shared *exitReader
	watch  *exits.Watch // nil with the reason why there is none
	reason string
	since  time.Time
	before *record.Handed // what an earlier reader has counted; nil if there was none

	handed, handedLost int64 // processes and lost records of the last handover
}

// watch begins to count what ends in the cgroup of a task, whose executor's directory has what an earlier reader has counted.
func (e *exitReader) watch(cgroup procstats.Cgroup, folder string) *exitWatch {
	w := &exitWatch{shared: e, since: time.Now()}
	var err error
	if w.before, err = record.ReadHanded(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.log.Warn("commands of an earlier reader are lost", "error", err)
	}
	if cgroup.V2 == "" {
		w.reason = "the task has no cgroup of version 2"
		return w
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err = e.acquire(); err == nil {
		if w.watch, err = e.reader.Watch(cgroup.V2); err != nil {
			e.release()
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errEndedBefore
		}
	}
	if err != nil {
		w.reason = err.Error()
	}
	return w
}

// acquire loads the programs for one more user; the lock is held.
func (e *exitReader) acquire() error {
	if e.err != nil {
		return e.err
	}
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
	if e.reader == nil {
		reader, err := openExits()
		if err != nil {
			if !errors.Is(err, exits.ErrBusy) {
				e.err = err
			}
			return err
		}
		e.reader = reader
	}
	e.users++
	return nil
}

// openExits loads the programs and tries them.
func openExits() (*exits.Reader, error) {
	r, err := exits.Open(kernel.HostFS())
	if err != nil {
		return nil, err //nolint:wrapcheck // a reason for people, which names the operation
	}
	if err := r.Try(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// hold loads the programs for a user that watches nothing, until it gives them up.
func (e *exitReader) hold() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.acquire()
}

func (e *exitReader) giveUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release()
}

// end unloads the programs now, or after their last user, and none are loaded again.
func (e *exitReader) end() {
	e.mu.Lock()
	e.err = errEnded
	e.mu.Unlock()
	e.close()
}

// release gives the programs up; the lock is held. They stay loaded for a while: a next task may start, and to attach them again so soon the
// kernel waits until no CPU can be running those of before.
func (e *exitReader) release() {
	if e.users--; e.users > 0 {
		return
	}
	if errors.Is(e.err, errEnded) {
		e.unload()
		return
	}
	e.idle = time.AfterFunc(idleLimit, e.close)
}

// close unloads the programs if they have no user.
func (e *exitReader) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users == 0 && e.reader != nil {
		e.unload()
	}
}

// unload unloads the programs; the lock is held.
func (e *exitReader) unload() {
	if err := e.reader.Close(); err != nil {
		e.log.Error("unload exit records", "error", err)
	}
	e.reader = nil
}

// finish returns what the processes of a task used that has ended.
func (w *exitWatch) finish(started time.Time) *record.Commands {
	var s exits.Summary
	if w.watch != nil {
		s, _ = w.watch.Finish(exitLimit) // its only error is ruled out by openExits
	}
	return w.commands(s, started)
}

// commands returns sums as a record has them; started is the start of the task.
func (w *exitWatch) commands(s exits.Summary, started time.Time) *record.Commands {
	if w.watch == nil && w.before != nil {
		return w.before.Until(time.Now())
	}
	if w.watch == nil {
		return &record.Commands{Rows: []procstats.Command{}, Reason: w.reason}
	}
	c := &record.Commands{Rows: s.Commands, LostRecords: s.Lost}
	if w.before != nil {
		c.Continue(w.before, w.since)
		return c
	}
	if w.since.After(started) {
		c.Since = w.since
	} else {
		c.LeftProcesses = s.Left // of all that the task had
	}
	return c
}

// hand leaves what was counted so far in the executor's directory, if anything has ended or was lost since the last time that this
// succeeded.
func (w *exitWatch) hand(folder string, started time.Time) error {
	if w == nil || w.watch == nil {
		return nil
	}
	at := time.Now()
	c := w.commands(w.watch.Read(), started)
	processes, lost := c.Processes(), c.LostRecords
	if processes == w.handed && lost == w.handedLost {
		return nil
	}
	c.CloseWith(nil)
	if err := (&record.Handed{At: at, Commands: c}).Write(folder); err != nil {
		return err //nolint:wrapcheck // it names the operation
	}
	w.handed, w.handedLost = processes, lost
	return nil
}

func (w *exitWatch) close() {
	if w == nil || w.watch == nil {
		return
	}
	w.shared.mu.Lock()
	defer w.shared.mu.Unlock()
	if err := w.watch.Close(); err != nil {
		w.shared.log.Error("close exit records of a task", "error", err)
	}
	w.shared.release()
}

// Commands returns what the ended processes of a task used, when it has ended and before its Done is closed; nil if it is not
// read here.
func (l *Loop) Commands(id string, started time.Time) (c *record.Commands) {
	finish := func(w *exitWatch) {
		if w != nil {
			c = w.finish(started)
		}
	}
	l.counted(id, func(r *reading) { finish(r.exits) }, func(e *early) { finish(e.exits) })
	return c
}

// CommandsSoFar returns what the processes of a running task used that have ended; nil if it is not read here.
func (l *Loop) CommandsSoFar(id string, started time.Time) *record.Commands {
	r := l.use(id, false)
	if r == nil {
		return l.earlyCommands(id, started)
	}
	defer l.release(r)
	c := r.exits.soFar(started)
	if r.exits.watch == nil {
		return c
	}
	// After the rows: a total of before can be less than its parts.
	if total, ok := procstats.CPUTotal(r.cache.GetNew()).Reading.Number(); ok {
		c.CloseWith(&total)
	}
	return c
}

// earlyCommands is CommandsSoFar of a task without a stream, of which there is no total.
func (l *Loop) earlyCommands(id string, started time.Time) (c *record.Commands) {
	if l == nil {
		return nil
	}
	if e := l.findEarly(id); e != nil {
		e.use(func() {
			c = e.exits.soFar(started)
			c.CloseWith(nil)
		})
	}
	return c
}

// soFar returns what has ended by now.
func (w *exitWatch) soFar(started time.Time) *record.Commands {
	if w.watch == nil {
		return w.commands(exits.Summary{}, started)
	}
	w.watch.Await(exitLimit)
	return w.commands(w.watch.Read(), started)
}
