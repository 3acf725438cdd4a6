// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// mostThreads is of how many threads of one process the scheduler's account is read: each takes three system calls, or six.
const mostThreads = 128

// queueCounts is what the scheduler counts of a thread besides its CPU time.
type queueCounts struct {
	delay time.Duration
	kernel.Switches
}

func (c *queueCounts) add(other queueCounts) {
	c.delay += other.delay
	c.Voluntary += other.Voluntary
	c.Involuntary += other.Involuntary
}

// threadQueue is a thread's, as it was last read.
type threadQueue struct {
	tid int
	queueCounts
}

// queueReading is what was last read of the threads of a process.
type queueReading struct {
	read          bool
	cpu           time.Duration // of the process then
	threads, next []threadQueue // by TID
	ended         queueCounts   // of threads that have ended
	sum           queueCounts   // of all
	fault         string        // why nothing could be read
	noDelay       string        // why the delay could not be read
}

// reasonNoSchedInfo is for kernels without the file, and for those that only write zeros to it.
const reasonNoSchedInfo = "the kernel does not count it: needs CONFIG_SCHED_INFO, and before Linux 5.14 kernel.sched_schedstats = 1 or delayacct"

// readQueue reads how long the threads of a process have waited for a CPU, and how often they were switched away from. A process
// whose CPU clock stands still was not given a CPU since, so its numbers have not changed: of most processes nothing is read.
func (t *Tree) readQueue(p *process) {
	q := &p.queue
	if q.read && q.cpu == p.tree.cpu && !t.ticks {
		return
	}
	q.read, q.cpu, q.fault, q.noDelay, q.next = true, p.tree.cpu, "", "", q.next[:0]
	err := t.readAllThreads(p)
	switch {
	case err != nil:
		q.fault = faultReason(p.PID, kernel.FileSchedstat, err)
	case len(q.next) == 0:
		q.fault = "none of its threads could be read"
	case len(q.next) > mostThreads:
		q.fault = fmt.Sprintf("it has more than %d threads", mostThreads)
	default:
		q.advance()
	}
}

// advance replaces what was read of each thread. What a thread that has ended was last seen with stays in the sum; another one can
// have its TID by now, with less.
func (q *queueReading) advance() {
	for i := range q.threads {
		before := &q.threads[i]
		at, alive := slices.BinarySearchFunc(q.next, before.tid, func(t threadQueue, tid int) int { return t.tid - tid })
		if !alive || q.next[at].delay < before.delay || q.next[at].Voluntary < before.Voluntary || q.next[at].Involuntary < before.Involuntary {
			q.ended.add(before.queueCounts)
		}
	}
	q.threads, q.next = q.next, q.threads
	q.sum = q.ended
	for i := range q.threads {
		q.sum.add(q.threads[i].queueCounts)
	}
}

// readAllThreads reads all threads of a process, or one more than there may be.
func (t *Tree) readAllThreads(p *process) error {
	m := t.members
	if t.stat && p.tree.threads == 1 {
		if err := t.readOneThread(p, unix.AT_FDCWD, p.PID); err != nil {
			return m.explain(p, err)
		}
		return m.verify(p)
	}
	task, err := m.open(p.PID, kernel.FileTask)
	if err == nil {
		defer func() { _ = task.Close() }()
		err = m.listThreads(task)
	}
	slices.Sort(m.tree.tids)
	for _, tid := range m.tree.tids[:min(len(m.tree.tids), mostThreads+1)] {
		if err == nil {
			err = t.readOneThread(p, task.FD(), tid)
		}
	}
	if err != nil {
		return m.explain(p, err)
	}
	return m.verify(p)
}

// readOneThread reads one thread, below /proc or below the task folder of its process; of one that has ended nothing.
func (t *Tree) readOneThread(p *process, dir, tid int) error {
	counts := threadQueue{tid: tid}
	if t.delay {
		stat, err := readOf(t.members, dir, tid, kernel.FileSchedstat, kernel.ParseProcSchedstat)
		switch {
		case err == nil && (stat != kernel.ProcSchedstat{} || p.tree.cpu == 0):
			counts.delay = stat.RunDelay
		case err == nil || errors.Is(err, unix.ENOENT) && tid == p.PID:
			p.queue.noDelay = reasonNoSchedInfo // else there is no such process any more, as verify will say
		case !kernel.Gone(err):
			return err
		default:
			return nil
		}
	}
	if t.switches {
		var err error
		if counts.Switches, err = readOf(t.members, dir, tid, kernel.FileStatus, kernel.ParseSwitches); err != nil {
			if kernel.Gone(err) {
				return nil
			}
			return err
		}
	}
	p.queue.next = append(p.queue.next, counts)
	return nil
}

// readOf reads a file of a thread below a folder.
func readOf[T any](m *Members, dir, tid int, file kernel.ProcessFile, parse func([]byte) (T, error)) (value T, err error) {
	if dir == unix.AT_FDCWD {
		m.pathOf(tid, file)
	} else {
		m.path = append(append(strconv.AppendInt(m.path[:0], int64(tid), 10), '/'), file.String()...)
		m.path = append(m.path, 0)
	}
	f, err := kernel.OpenAt(dir, m.path, 0)
	if err != nil {
		return value, err
	}
	data, err := f.Read(m.shared.Buffer)
	_ = f.Close() // of what was only read
	if m.shared.Buffer = data; err != nil {
		return value, err
	}
	return parse(data)
}

// reading returns one of the measurements for a row.
func (q *queueReading) reading(id procstats.ID) procstats.Reading {
	switch {
	case id == procstats.ProcessRunDelay && q.noDelay != "":
		return procstats.AbsentReading(id, q.noDelay)
	case q.fault != "":
		return procstats.AbsentReading(id, q.fault)
	case id == procstats.ProcessVoluntarySwitches:
		return procstats.NumberReading(id, float64(q.sum.Voluntary))
	case id == procstats.ProcessInvoluntarySwitches:
		return procstats.NumberReading(id, float64(q.sum.Involuntary))
	}
	return procstats.NumberReading(id, q.sum.delay.Seconds())
}
