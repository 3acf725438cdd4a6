// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"sync"
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
	// packets is the counter until a source has it; nil with the reason why there is none, or if packets are not
	// selected.
	packets *network.Counter
	reason  string
}

// source is a source of the packets of a selection; nil if they are not counted, and without a reason.
func (c *counts) source(selection procstats.Selection) *network.Source {
	if c.packets == nil && c.reason == "" {
		return nil
	}
	return network.Of(selection, c.packets, c.reason)
}

func (c *counts) close(l *Loop) {
	c.exits.Close()
	if c.packets != nil {
		if err := c.packets.Close(); err != nil {
			l.log.Error("stop counting packets of a task", "error", err)
		}
	}
}

// early has the counts of a task from before its start, until the first stream of it takes them over.
type early struct {
	counts
	mu     sync.Mutex // held while the counts are used, and guards following
	taken  bool       // by a stream, or it is closed
	unused *time.Timer
}

// Count counts what ends in the cgroup of a task that is about to be started, and its packets if that is wanted. A
// stream of the task continues the counts; without one they end after a while, and with Forget.
func (l *Loop) Count(id string, cgroup procstats.Cgroup, packets bool) {
	if l == nil || !cgroup.Encloses() || cgroup.V2 == "" {
		return
	}
	e := &early{counts: counts{exits: l.programs.WatchExits(cgroup, nil)}}
	if packets {
		var err error
		if e.packets, err = l.programs.CountPackets(cgroup); err != nil {
			e.reason = err.Error()
		}
	}
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		e.close(l)
		return
	}
	before := l.early[id]
	l.early[id] = e
	e.unused = time.AfterFunc(unusedLimit, func() {
		if l.dropEarly(id, e) {
			l.asked.Store(false)
		}
	})
	l.mu.Unlock()
	before.end(l)
}

// Load loads what counts ended processes while an executor starts. The caller releases it when it has called Count.
func (l *Loop) Load() (release func()) {
	loaded := make(chan func(), 1)
	go func() { loaded <- l.programs.Load() }()
	return func() { (<-loaded)() }
}

// Asked reports whether a stream is expected of the next task that is started: one was opened since a counted task
// went without.
func (l *Loop) Asked() bool { return l != nil && l.asked.Load() }

// Forget ends what Count began of a task that is over and has no stream. It may have none of either.
func (l *Loop) Forget(id string) {
	if l != nil {
		l.takeEarly(id).end(l)
	}
}

// takeEarly returns what is counted of a task, for a stream; nil if nothing is.
func (l *Loop) takeEarly(id string) *early {
	l.mu.Lock()
	e := l.early[id]
	delete(l.early, id)
	l.mu.Unlock()
	e.take()
	return e
}

// dropEarly ends what is counted of a task, and reports whether it was there still.
func (l *Loop) dropEarly(id string, e *early) bool {
	l.mu.Lock()
	found := l.early[id] == e
	if found {
		delete(l.early, id)
	}
	l.mu.Unlock()
	if found {
		e.end(l)
	}
	return found
}

// take waits until the counts are not in use, and ends their use. Taking nil is fine.
func (e *early) take() {
	if e == nil {
		return
	}
	e.unused.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken = true
}

// end takes the counts and closes them. Ending nil is fine.
func (e *early) end(l *Loop) {
	if e != nil {
		e.take()
		e.close(l)
	}
}

// use calls f, and reports whether it could: not if a stream has taken the counts.
func (e *early) use(f func(*counts, *reading)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.taken {
		f(&e.counts, nil)
	}
	return !e.taken
}

// endAllEarly is for the end of the loop, when nothing is added.
func (l *Loop) endAllEarly() {
	l.mu.Lock()
	all := l.early
	l.early = make(map[string]*early)
	l.mu.Unlock()
	for _, e := range all {
		e.end(l)
	}
}

// counted calls a function with the counts of a task that has ended and with its reading, when that is opened or
// cannot be; without a stream the reading is nil. It calls nothing if the task is not read here.
func (l *Loop) counted(id string, f func(*counts, *reading)) {
	if l == nil {
		return
	}
	for {
		if r := l.use(id, true); r != nil {
			r.opening.Lock()
			defer l.release(r)
			defer r.opening.Unlock()
			f(&r.counts, r)
			return
		}
		l.mu.Lock()
		e := l.early[id]
		l.mu.Unlock()
		if e == nil || e.use(f) {
			return
		}
	}
}

// Commands returns what the ended processes of a task used, when it has ended and before its Done is closed; nil if
// it is not read here.
func (l *Loop) Commands(id string, started time.Time) (c *record.Commands) {
	l.counted(id, func(counts *counts, _ *reading) { c = counts.exits.Finish(started) })
	return c
}

// CommandsSoFar returns what the processes of a running task used that have ended; nil if it is not read here.
func (l *Loop) CommandsSoFar(id string, started time.Time) (c *record.Commands) {
	r := l.use(id, false)
	if r == nil { // without a stream there is no total
		l.counted(id, func(counts *counts, r *reading) {
			if r == nil {
				c = counts.exits.SoFar(started)
				c.CloseWith(nil)
			}
		})
		return c
	}
	defer l.release(r)
	c = r.exits.SoFar(started)
	if !r.exits.Counts() {
		return c
	}
	// After the rows: a total of before can be less than its parts.
	if total, ok := procstats.CPUTotal(r.New()).Reading.Number(); ok {
		c.CloseWith(&total)
	}
	return c
}

// Network returns the packets of a task when it has ended, before its Done is closed, and what the source can do
// here; nil if it is not read here.
func (l *Loop) Network(id string) (s *procstats.Sample, d procstats.SourceDescription) {
	l.counted(id, func(c *counts, r *reading) {
		if r != nil && r.Reader != nil {
			s = &procstats.Sample{}
			d = r.AddPackets(s)
		} else if source := c.source(procstats.SourceSelection(procstats.SourceSkb)); source != nil {
			s, d = &procstats.Sample{}, source.Describe()
			source.Collect(s)
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
	if counted := r.source(selection); counted != nil {
		r.packets, r.reason = nil, "" // the source closes it
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
