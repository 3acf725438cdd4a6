// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"maps"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

const (
	// mostCommands is how many names of commands are told apart; what ends under further ones is counted together.
	mostCommands = 1000
	// mostStatuses is how many ways of failing are told apart of one command.
	mostStatuses = 16
	// mostOpen is how many processes may have ended threads before their sums are closed.
	mostOpen = 1 << 12
)

// sum is a command that is being added up.
type sum struct {
	use               use
	processes, failed int64
	peak, bound       int64
	mapped            int64 // see procstats.Command.MappedBytes
	undelayed         bool  // whether it is not known how long some waited
	statuses          map[uint32]int64
}

// tally adds up the threads that ended in one cgroup. It is not safe for concurrent use.
type tally struct {
	commands map[string]*sum
	open     map[process]*thread // with threads that have ended, and others that are alive or not reported yet
	earlier  map[uint32]use      // of processes that ran before, by PID
	ended    int64               // processes whose last thread has ended here
	lastEnd  time.Duration
	// peaks is what the largest resident sets guarantee that are a process's own.
	peaks procstats.Guarantee
	// touched is the most memory of its own that one page fault gives a process; 0 if that is not known.
	touched int64
}

func newTally(peaks procstats.Guarantee, touched int64) *tally {
	return &tally{
		peaks: peaks, touched: touched,
		commands: make(map[string]*sum), open: make(map[process]*thread), earlier: make(map[uint32]use),
	}
}

// add counts a thread that has ended. A process counts once its last thread has; that of another may be reported later.
func (t *tally) add(one thread) {
	t.lastEnd = max(t.lastEnd, one.end)
	p, begun := t.open[one.process]
	if one.ended && (!begun || !p.ended) {
		t.ended++
	}
	if !begun && one.ended && !one.others {
		t.close(one)
		return
	}
	if !begun {
		if len(t.open) >= mostOpen {
			t.closeAll()
		}
		first := one
		t.open[one.process] = &first
		return
	}
	p.join(one)
}

// join adds another thread of the same process.
func (p *thread) join(one thread) {
	p.use.add(one.use)
	p.command = one.command
	p.ended, p.first, p.last = p.ended || one.ended, p.first || one.first, p.last || one.last
	p.maxRSS, p.inherited = max(p.maxRSS, one.maxRSS), max(p.inherited, one.inherited)
	if one.whole || !p.whole {
		p.status, p.whole = one.status, p.whole || one.whole
	}
}

// close counts a process that has ended.
func (t *tally) close(p thread) {
	name := t.name(p.command)
	s := t.commands[name]
	if s == nil {
		s = &sum{statuses: make(map[uint32]int64)}
		t.commands[name] = s
	}
	s.processes++
	if earlier, found := t.earlier[p.process.pid]; found {
		delete(t.earlier, p.process.pid)
		// CPU time is less if threads had ended before. How much of the rest was used before is not known.
		p.use = use{
			cpu: max(0, p.use.cpu-earlier.cpu), read: max(0, p.use.read-earlier.read),
			written: max(0, p.use.written-earlier.written),
		}
		s.undelayed, p.inherited = true, p.maxRSS
	}
	s.use.add(p.use)
	if p.maxRSS > p.inherited {
		s.peak, s.mapped = max(s.peak, p.maxRSS), max(s.mapped, t.mapped(&p))
	} else {
		s.bound = max(s.bound, p.maxRSS)
	}
	if p.status == 0 {
		return
	}
	s.failed++
	if _, known := s.statuses[p.status]; known || len(s.statuses) < mostStatuses {
		s.statuses[p.status]++
	}
}

// mapped returns what a process whose peak is its own had of other memory than that which it touched first. One that
// executed nothing, and so inherited no peak, has that of its parent without a page fault.
func (t *tally) mapped(p *thread) int64 {
	if t.touched == 0 || p.inherited == 0 {
		return 0
	}
	return max(0, p.maxRSS-(p.use.minorFaults+p.use.majorFaults)*t.touched)
}

// name returns under which name a command is counted.
func (t *tally) name(command string) string {
	if t.commands[command] == nil && len(t.commands) >= mostCommands {
		return ""
	}
	return command
}

// settle closes the processes that have ended when no record is outstanding. A thread leaves its process, which has
// ended then, before it is counted as one that has begun to end: only one that is released is surely counted.
func (t *tally) settle() { t.closeThose(func(p *thread) bool { return p.first && p.last }) }

// closeAll closes all processes that have ended, or else all.
func (t *tally) closeAll() {
	if t.closeThose(func(p *thread) bool { return p.ended }) == 0 {
		t.finish()
	}
}

// finish closes everything: nothing is alive.
func (t *tally) finish() { t.closeThose(func(*thread) bool { return true }) }

func (t *tally) closeThose(which func(p *thread) bool) (closed int) {
	for id, p := range t.open {
		if which(p) {
			t.close(*p)
			delete(t.open, id)
			closed++
		}
	}
	return closed
}

// list returns the sums, the command with the most CPU time first. A process counts once it has ended, also if its
// other threads may report more.
func (t *tally) list() []procstats.Command {
	all := newTally(t.peaks, t.touched)
	maps.Copy(all.earlier, t.earlier)
	for name, s := range t.commands {
		c := *s
		c.statuses = maps.Clone(s.statuses)
		all.commands[name] = &c
	}
	for _, p := range t.open {
		if p.ended {
			all.close(*p)
		}
	}
	list := make([]procstats.Command, 0, len(all.commands))
	for _, name := range slices.Sorted(maps.Keys(all.commands)) {
		list = append(list, all.commands[name].command(name, t.peaks))
	}
	slices.SortStableFunc(list, func(a, b procstats.Command) int { return procstats.CompareCommands(&a, &b) })
	return list
}

func (s *sum) command(name string, peaks procstats.Guarantee) procstats.Command {
	c := procstats.Command{
		Name: procstats.EscapeName(name), Processes: s.processes, Failed: s.failed,
		CPUSeconds: s.use.cpu.Seconds(), RunDelaySeconds: new(s.use.delay.Seconds()),
		PeakRSSBytes: max(s.peak, s.bound), PeakRSSGuarantee: peaks, MappedBytes: s.mapped,
		ReadBytes: new(s.use.read), WrittenBytes: new(s.use.written),
		MinorFaults: s.use.minorFaults, MajorFaults: s.use.majorFaults,
		Voluntary: s.use.voluntary, Involuntary: s.use.involuntary,
	}
	if s.undelayed {
		c.RunDelaySeconds = nil
	}
	if s.bound > s.peak {
		c.PeakRSSGuarantee = procstats.UpperBound
	}
	for status, processes := range s.statuses {
		c.Failures = append(c.Failures, procstats.CommandFailure{
			ExitCode: int(status >> 8 & 0xff), Signal: int(status & 0x7f), Processes: processes,
		})
	}
	c.Failures = procstats.JoinFailures(c.Failures)
	return c
}
