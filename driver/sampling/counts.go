// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sampling

import (
	"time"

	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// unusedLimit is how long the counts of a started task wait for a stream of it.
const unusedLimit = 10 * time.Second

// counts are what the kernel counts of a task only for a watcher.
type counts struct {
	exits *reader.Exits
	// packets is the source of the packets until the reader has it; nil if they are not selected.
	packets *network.Source
}

// Count counts what ends in the cgroup of a task that is about to be started, and its packets if that is wanted. A
// stream of the task continues the counts; without one they end after a while, and with Forget.
func (l *Loop) Count(id string, cgroup procstats.Cgroup, packets bool) {
	if l.limit == 0 || !cgroup.Encloses() || cgroup.V2 == "" {
		return
	}
	r := l.newReading(id)
	r.exits = l.programs.WatchExits(cgroup, nil)
	if packets {
		r.packets = l.programs.OpenPackets(procstats.SourceSelection(procstats.SourceSkb), cgroup, false)
		r.packets.WatchSockets(l.programs.Sockets, nil, r.exits.Uncounted) // its executor opens the streams by their names
	}
	l.mu.Lock()
	fits := l.ctx.Err() == nil && l.readings[id] == nil && len(l.readings) < l.limit
	if fits {
		r.users = 1
		l.work.Add(1)
		l.readings[id] = r
		r.unused = time.AfterFunc(unusedLimit, func() { l.Forget(id) })
	}
	l.mu.Unlock()
	if !fits {
		r.close()
	}
}

// Load loads what counts ended processes while an executor starts. The caller releases it when it has called Count.
func (l *Loop) Load() (release func()) {
	loaded := make(chan func(), 1)
	go func() { loaded <- l.programs.Load() }()
	return func() { (<-loaded)() }
}

// Forget ends what Count began of a task that is over and has no stream. It may have none of either.
func (l *Loop) Forget(id string) {
	l.mu.Lock()
	r := l.readings[id]
	found := r != nil && r.unused != nil
	if found {
		r.unused.Stop()
		r.unused = nil
	}
	l.mu.Unlock()
	if found {
		l.release(r)
	}
}

// counted calls a function with the reading of a task when that is opened, or cannot be, or has no stream yet. It calls
// nothing if the task is not read here.
func (l *Loop) counted(id string, f func(*reading)) {
	if r := l.use(id); r != nil {
		defer l.release(r)
		r.opening.Lock()
		defer r.opening.Unlock()
		f(r)
	}
}

// Commands returns what the ended processes of a task used, when it has ended and before its Done is closed; nil if
// it is not read here.
func (l *Loop) Commands(id string, started time.Time) (c *record.Commands) {
	l.counted(id, func(r *reading) { c = r.exits.Finish(started) })
	return c
}

// CommandsSoFar returns what the processes of a running task used that have ended; nil if it is not read here.
func (l *Loop) CommandsSoFar(id string, started time.Time) (c *record.Commands) {
	l.counted(id, func(r *reading) {
		if r.exits == nil {
			return
		}
		c = r.exits.SoFar(started)
		switch {
		case !r.opened.Load():
			c.CloseWith(nil) // without a stream there is no total
		case r.exits.Counts():
			c.CloseWith(r.total()) // after the rows: a total of before can be less than its parts
		}
	})
	return c
}

// total is the CPU time since ended processes are counted; nil if it is not known.
func (r *reading) total() *float64 {
	total, ok := procstats.CPUTotal(r.New()).Reading.Number()
	if r.task.Executor == nil {
		earlier, known := r.earlier.Number()
		total, ok = total-earlier, ok && known
	}
	if !ok {
		return nil
	}
	return &total
}

// Network returns the packets of a task when it has ended, before its Done is closed, and what the source can do
// here; nil if it is not read here.
func (l *Loop) Network(id string) (s *procstats.Sample, d procstats.SourceDescription) {
	l.counted(id, func(r *reading) {
		if r.Reader != nil {
			s = &procstats.Sample{}
			d = r.AddPackets(s)
		} else if r.packets != nil {
			s, d = &procstats.Sample{}, r.packets.Describe()
			r.packets.Collect(s)
		}
	})
	return s, d
}

// openPackets begins to count the packets of the task, if they are selected and can be counted on this machine. The
// executor's sample says why they are not selected, if that is because counting them is off.
func (r *reading) openPackets(selection procstats.Selection, executors *procstats.Sample) *network.Source {
	if reading, found := executors.Task.Get(procstats.SkbReceived); found && !selection.HasSource(procstats.SourceSkb) {
		return network.Absent(procstats.SourceSelection(procstats.SourceSkb), reading.Reason())
	}
	if counted := r.packets; counted != nil {
		r.packets = nil // the reader closes it
		counted.Select(selection)
		return counted
	}
	return r.loop.programs.OpenPackets(selection, r.task.Cgroup, true)
}

// unreaped reports whether a process is there, be it as a zombie: that is a row with what it used until it is reaped,
// and counts as exited from then on. kernel.Alive would count it twice.
func unreaped(id procstats.ProcessID) bool {
	identity, err := kernel.Identify(kernel.HostFS(), id.PID)
	return err == nil && identity.ProcessID == id
}
