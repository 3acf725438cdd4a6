// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func (m *membership) listThreads(task kernel.File) (err error) {
	m.tree.tids, err = task.AppendNumbers(m.tree.tids[:0], m.tree.direntBuffer())
	return err
}

// readThread reads a file of one thread, from the folder of its process's threads, into memory used again.
func (m *membership) readThread(task kernel.File, tid int, file kernel.ProcessFile, into []byte) ([]byte, error) {
	m.shared.path = file.AppendThreadPath(m.shared.path[:0], tid)
	return kernel.ReadOnce(task.FD(), m.shared.path, into)
}

// readThreads is read for a process whose main thread may have ended (pthread_exit) while others run: its files say
// nothing of its memory then, and those of any other thread do.
func (m *membership) readThreads(p *process, file kernel.ProcessFile) ([]byte, error) {
	if !p.leaderless {
		return m.read(p, file)
	}
	return m.readRunningThread(p, file)
}

// readRunningThread reads a file of a thread of a process that is not about to end.
func (m *membership) readRunningThread(p *process, file kernel.ProcessFile) ([]byte, error) {
	task, err := m.open(p.PID, kernel.FileTask)
	if err == nil {
		defer func() { _ = task.Close() }()
		err = m.listThreads(task)
	}
	if err != nil {
		return nil, m.explain(p, err)
	}
	for _, tid := range m.tree.tids {
		data, err := m.readThread(task, tid, file, m.shared.Buffer)
		if m.shared.Buffer = data; err != nil || len(data) == 0 {
			continue
		}
		switch file {
		case kernel.FileStatm: // that of a thread that is ending is all zeros
			if data[0] == '0' {
				continue
			}
		case kernel.FileCgroup:
			proof, err := m.readThread(task, tid, kernel.FileStat, m.shared.proof)
			m.shared.proof = proof
			if stat, parsed := kernel.ParseProcStat(proof); err != nil || parsed != nil || stat.Exiting() {
				continue
			}
		}
		return data, m.verify(p)
	}
	return nil, unix.ESRCH
}

// mostThreads is of how many threads of one process the scheduler's account is read: each takes three system calls, or
// six.
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

// less reports whether any of the counts is below another's.
func (c *queueCounts) less(other queueCounts) bool {
	return c.delay < other.delay || c.Voluntary < other.Voluntary || c.Involuntary < other.Involuntary
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
	before        queueCounts   // the sum when the process was counted first, if it ran before
	fault         string        // why nothing could be read
	noDelay       string        // why the delay could not be read
}

// reasonNoSchedInfo is for kernels without the file, and for those that only write zeros to it.
const reasonNoSchedInfo = "the kernel does not count it: needs CONFIG_SCHED_INFO, and before Linux 5.14 " +
	"kernel.sched_schedstats = 1 or delayacct"

// readQueue reads how long the threads of a process have waited for a CPU, and how often they were switched away from.
// A process whose CPU clock stands still was not given a CPU since, so its numbers have not changed: of most processes
// nothing is read.
func (t *treeSource) readQueue(p *process) {
	q := &p.queue
	if q.read && q.cpu == p.tree.cpu && !t.ticks {
		return
	}
	first := len(q.threads) == 0 && p.before > 0 // see countFromHere
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
		if q.advance(); first {
			q.before = q.sum
		}
	}
}

// advance replaces what was read of each thread. What a thread that has ended was last seen with stays in the sum;
// another one can have its TID by now, with less.
func (q *queueReading) advance() {
	byTID := func(t threadQueue, tid int) int { return t.tid - tid }
	for _, before := range q.threads {
		at, alive := slices.BinarySearchFunc(q.next, before.tid, byTID)
		if !alive || q.next[at].less(before.queueCounts) {
			q.ended.add(before.queueCounts)
		}
	}
	q.threads, q.next = q.next, q.threads
	q.sum = q.ended
	for _, t := range q.threads {
		q.sum.add(t.queueCounts)
	}
}

// readAllThreads reads all threads of a process, or one more than there may be.
func (t *treeSource) readAllThreads(p *process) error {
	m := t.members
	if t.stat && p.tree.threads == 1 {
		return m.explainOrVerify(p, t.readOneThread(p, kernel.File{}, p.PID))
	}
	task, err := m.open(p.PID, kernel.FileTask)
	if err == nil {
		defer func() { _ = task.Close() }()
		err = m.listThreads(task)
	}
	slices.Sort(m.tree.tids)
	for _, tid := range m.tree.tids[:min(len(m.tree.tids), mostThreads+1)] {
		if err == nil {
			err = t.readOneThread(p, task, tid)
		}
	}
	return m.explainOrVerify(p, err)
}

// explainOrVerify ends a reading of threads: if it worked, the process must still be there.
func (m *membership) explainOrVerify(p *process, err error) error {
	if err != nil {
		return m.explain(p, err)
	}
	return m.verify(p)
}

// readOneThread reads one thread, below the folder of its process's threads, or below /proc if that is not open;
// nothing of one that has ended.
func (t *treeSource) readOneThread(p *process, task kernel.File, tid int) error {
	counts := threadQueue{tid: tid}
	if t.delay {
		stat, err := readOf(t.members, task, tid, kernel.FileSchedstat, kernel.ParseProcSchedstat)
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
		if counts.Switches, err = readOf(t.members, task, tid, kernel.FileStatus, kernel.ParseSwitches); err != nil {
			if kernel.Gone(err) {
				return nil
			}
			return err
		}
	}
	p.queue.next = append(p.queue.next, counts)
	return nil
}

// readOf reads and parses a file of a thread.
func readOf[T any](
	m *membership, task kernel.File, tid int, file kernel.ProcessFile, parse func([]byte) (T, error),
) (value T, err error) {
	var data []byte
	if task.IsOpen() {
		data, err = m.readThread(task, tid, file, m.shared.Buffer)
	} else {
		data, err = kernel.ReadOnce(unix.AT_FDCWD, m.pathOf(tid, file), m.shared.Buffer)
	}
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
		return procstats.NumberReading(id, float64(q.sum.Voluntary-q.before.Voluntary))
	case id == procstats.ProcessInvoluntarySwitches:
		return procstats.NumberReading(id, float64(q.sum.Involuntary-q.before.Involuntary))
	}
	return procstats.NumberReading(id, (q.sum.delay - q.before.delay).Seconds())
}
