// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package reader

import (
	"errors"
	"io/fs"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/network"
)

// exitLimit is how long the end of a task, and a request for its commands, wait for records that are outstanding.
const exitLimit = 100 * time.Millisecond

// errEndedBefore is of a task whose cgroup has been removed.
var errEndedBefore = errors.New("the task had ended before its processes could be watched")

// Exits counts the ended processes of one task, since before its start or since it was first read. Nil counts none.
type Exits struct {
	programs *Programs
	reader   *exits.Reader
	watch    *exits.Watch // nil with the reason why there is none
	reason   string
	since    time.Time
	before   *record.Handed // what an earlier reader has counted; nil if there was none
}

// WatchExits begins to count what ends in the cgroup of a task; before is what was handed over of it, or nil.
func (p *Programs) WatchExits(group procstats.Cgroup, before *record.Handed) *Exits {
	w := &Exits{programs: p, since: time.Now(), before: before}
	if group.V2 == "" || !group.Encloses() {
		w.reason = network.NoCgroup
		return w
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.acquire()
	if err == nil {
		w.reader = p.reader
		if w.watch, err = w.reader.Watch(group.V2); err != nil {
			p.release()
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

// Try sees whether the programs report anything. For a task that is over before, the end of its first process is the test.
func (w *Exits) Try() {
	if w == nil || w.watch == nil {
		return
	}
	if err := w.reader.Try(); err != nil {
		w.giveUp(err)
	}
}

// giveUp ends the watch of programs that report nothing.
func (w *Exits) giveUp(reason error) {
	w.Close()
	w.watch, w.reason = nil, reason.Error()
}

// Finish returns what the processes used of a task that was started at a time and has ended; nil if they were not counted.
func (w *Exits) Finish(started time.Time) *record.Commands {
	if w == nil {
		return nil
	}
	var s exits.Summary
	if w.watch != nil {
		var err error
		if s, err = w.watch.Finish(exitLimit); err != nil {
			w.giveUp(err)
		}
	}
	return w.commands(s, started)
}

// SoFar returns what the processes used that have ended of a running task.
func (w *Exits) SoFar(started time.Time) *record.Commands {
	if w.watch == nil {
		return w.commands(exits.Summary{}, started)
	}
	w.watch.Await(exitLimit)
	return w.commands(w.watch.Read(), started)
}

// Counted returns what has ended by now, for a handover; nil if nothing is counted.
func (w *Exits) Counted(started time.Time) *record.Handed {
	if !w.Counts() {
		return nil
	}
	at := time.Now()
	c := w.commands(w.watch.Read(), started)
	c.CloseWith(nil)
	return &record.Handed{At: at, Commands: c}
}

// commands returns sums as a record has them.
func (w *Exits) commands(s exits.Summary, started time.Time) *record.Commands {
	if w.watch == nil && w.before != nil {
		return w.before.Until(time.Now())
	}
	if w.watch == nil {
		return &record.Commands{Rows: []procstats.Command{}, Reason: w.reason}
	}
	c := &record.Commands{Rows: s.Commands, LostRecords: s.Lost}
	switch {
	case w.before != nil:
		c.Continue(w.before, w.since)
	case w.since.After(started):
		c.Since = w.since
	default:
		c.LeftProcesses = s.Left // of all that the task had
	}
	return c
}

// Counts reports whether ended processes are counted.
func (w *Exits) Counts() bool { return w != nil && w.watch != nil }

// Describe says whether exits are recorded here, as a record has it.
func (w *Exits) Describe() []record.Source {
	if w == nil {
		return nil
	}
	return []record.Source{{Name: "exits", Available: w.watch != nil, Reason: w.reason}}
}

// Close ends the watch.
func (w *Exits) Close() {
	if !w.Counts() {
		return
	}
	p := w.programs
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := w.watch.Close(); err != nil {
		p.log.Error("close exit records of a task", "error", err)
	}
	p.release()
}
