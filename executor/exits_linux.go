// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/network"
)

// exitLimit is how long the end of a task waits for the records of processes that have been reaped already.
const exitLimit = 100 * time.Millisecond

// exitWatch counts the ended processes of a task that this executor samples. If another process does, none of it is loaded:
// every executor would pay for it.
type exitWatch struct {
	log      hclog.Logger
	programs *programs
	reader   *exits.Reader
	watch    *exits.Watch
	reason   string // why there is none
}

// watchExits begins before the task is started, so that no process of it is missed.
func (r *recorder) watchExits(t *task) {
	if r.interval <= 0 {
		return
	}
	w := &exitWatch{log: t.log, programs: t.programs}
	r.exits = w
	if t.group.V2 == "" || !t.group.Encloses() {
		w.reason = network.NoCgroup
		if err := t.programs.exits.close(); err != nil {
			t.log.Error("close exit records", "error", err)
		}
		return
	}
	var err error
	if w.reader, err = t.programs.openExits(); err == nil {
		w.watch, err = w.reader.Watch(t.group.V2)
	}
	if err != nil {
		w.reason = err.Error()
	}
}

// try sees whether the programs report anything. It takes a millisecond, of which a task that is over before is spared: the end
// of its own first process is the test then.
func (w *exitWatch) try() {
	if w == nil || w.watch == nil {
		return
	}
	if err := w.reader.Try(); err != nil {
		w.giveUp(err)
	}
}

// giveUp ends the watch of programs that report nothing.
func (w *exitWatch) giveUp(reason error) {
	if err := w.watch.Close(); err != nil {
		w.log.Error("close exit records", "error", err)
	}
	w.watch, w.reason = nil, reason.Error()
}

// finish returns what the processes of the task used, when none of them is left; nil if they were not watched for.
func (w *exitWatch) finish() *record.Commands {
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
	if w.watch == nil {
		return &record.Commands{Rows: []procstats.Command{}, Reason: w.reason}
	}
	return &record.Commands{Rows: s.Commands, LostRecords: s.Lost, LeftProcesses: s.Left}
}

// report returns what the processes used that have ended so far; nil if that is not counted. The total is read after them:
// one of before can be less than its parts.
func (w *exitWatch) report(totals func() *procstats.Sample) *record.Commands {
	if w == nil || w.watch == nil {
		return nil
	}
	w.watch.Await(exitLimit)
	sums := w.watch.Read()
	var total *float64
	if cpu, ok := procstats.CPUTotal(totals()).Reading.Number(); ok {
		total = &cpu
	}
	return (&record.Commands{Rows: sums.Commands, LostRecords: sums.Lost}).Report(total)
}

// describe says whether exits are recorded here.
func (w *exitWatch) describe() []record.Source {
	if w == nil {
		return nil
	}
	return []record.Source{{Name: "exits", Available: w.watch != nil, Reason: w.reason}}
}

// close unloads the programs.
func (w *exitWatch) close() error {
	if w == nil {
		return nil
	}
	var err error
	if w.watch != nil {
		err = w.watch.Close()
	}
	return errors.Join(err, w.programs.close())
}
