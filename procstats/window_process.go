// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// defaultMaxProcesses bounds the processes of a window that sets no bound of its own.
const defaultMaxProcesses = 1000

// StartTick is the unit of ProcessID.Start: USER_HZ is 100 on every architecture that Linux still has.
const StartTick = 10 * time.Millisecond

// ProcessWindow is one process over a window.
type ProcessWindow struct {
	ProcessID
	// PPID and Command are those of the last sample that had the process.
	PPID    int
	Command string
	// FirstSeen and LastSeen are the stamps of the first and last sample of the window that had the process.
	FirstSeen, LastSeen Stamp
	// Samples counts the samples of the window that had the process.
	Samples int
	// Ended reports that the window's last sample no longer had the process.
	Ended bool

	series seriesSet
}

// Reduce returns one value of a process's measurement over the window, as Window.Reduce does for the task's.
// A counter of a process that began within the window is measured from 0.
func (p *ProcessWindow) Reduce(id ID, r Reduction) (Reading, error) {
	return p.series.reduce(id, r, ProcessScope)
}

// Tally counts in how many samples each state of a category was seen.
func (p *ProcessWindow) Tally(id ID) map[string]int { return maps.Clone(p.series.tally(id)) }

// CPU returns the CPU seconds the process used within the window.
func (p *ProcessWindow) CPU() Reading { return p.oneOf(Delta, ProcessCPU, PortableProcessCPU) }

// LastCPU returns the CPU seconds the process had used when it was last read.
func (p *ProcessWindow) LastCPU() Reading { return p.oneOf(Last, ProcessCPU, PortableProcessCPU) }

// MaxRSS returns the most resident bytes the process was seen with.
func (p *ProcessWindow) MaxRSS() Reading { return p.oneOf(Max, ProcessRSS, PortableProcessRSS) }

// oneOf reduces the first of the measurements that was read, else says why the first was not.
func (p *ProcessWindow) oneOf(r Reduction, ids ...ID) Reading {
	for _, id := range ids {
		if reading, err := p.Reduce(id, r); err == nil && reading.Present() {
			return reading
		}
	}
	reading, err := p.Reduce(ids[0], r)
	if err != nil {
		return AbsentReading(ids[0], err.Error())
	}
	return reading
}

// Processes returns the processes that the window's samples had, by CPU time used within it, most first.
func (w *Window) Processes() []ProcessWindow {
	var list []ProcessWindow
	for _, p := range w.processes {
		if p.Samples > 0 {
			view := *p
			view.series, view.Ended = p.series.clone(), !p.LastSeen.same(w.last)
			list = append(list, view)
		}
	}
	slices.SortFunc(list, func(a, b ProcessWindow) int {
		cpuA, _ := a.CPU().Number()
		cpuB, _ := b.CPU().Number()
		return cmp.Or(cmp.Compare(cpuB, cpuA), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start))
	})
	return list
}

// ProcessesOmitted counts processes that the window saw and does not list, because of its upper bound. The
// rows that the samples themselves left out are not in it.
func (w *Window) ProcessesOmitted() int { return w.omitted }

// addProcesses updates the processes that are known before it makes room for new ones: only then is it plain
// which have ended.
func (w *Window) addProcesses(s *Sample) {
	if len(s.Processes) > 0 && w.processes == nil {
		w.processes = map[ProcessID]*ProcessWindow{}
	}
	unknown := 0
	for i := range s.Processes {
		if p := w.processes[s.Processes[i].ProcessID]; p != nil {
			p.add(s, &s.Processes[i])
		} else {
			unknown++
		}
	}
	if unknown == 0 {
		return
	}
	room := w.makeRoom(unknown, s.Stamp)
	for i := range s.Processes {
		r := &s.Processes[i]
		if w.processes[r.ProcessID] != nil {
			continue
		}
		if room == 0 {
			w.omitted++
			continue
		}
		room--
		p := &ProcessWindow{ProcessID: r.ProcessID}
		if !w.last.Zero() && w.complete && r.bornSince(w.last) {
			p.series.startAtZero(r.Readings, w.last)
		}
		p.add(s, r)
		w.processes[r.ProcessID] = p
	}
}

// makeRoom forgets processes that ended before now, those with the least CPU time first, until wanted new
// ones fit, and returns how many fit.
func (w *Window) makeRoom(wanted int, now Stamp) int {
	limit := max(0, cmp.Or(w.MaxProcesses, defaultMaxProcesses))
	if room := limit - len(w.processes); room >= wanted {
		return wanted
	}
	type endedProcess struct {
		ProcessID
		cpu float64
	}
	var ended []endedProcess
	for id, p := range w.processes {
		if !p.LastSeen.same(now) {
			cpu, _ := p.CPU().Number()
			ended = append(ended, endedProcess{id, cpu})
		}
	}
	slices.SortFunc(ended, func(a, b endedProcess) int {
		return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start))
	})
	for len(ended) > 0 && limit-len(w.processes) < wanted {
		delete(w.processes, ended[0].ProcessID)
		ended = ended[1:]
		w.omitted++
	}
	return min(wanted, max(0, limit-len(w.processes)))
}

// advanceProcesses forgets the processes that have ended and continues the counters of the others.
func (w *Window) advanceProcesses() {
	w.omitted = 0
	for id, p := range w.processes {
		if !p.LastSeen.same(w.last) {
			delete(w.processes, id)
			continue
		}
		p.Samples = 0
		p.series.advance()
	}
}

func (p *ProcessWindow) add(s *Sample, r *ProcessRow) {
	if p.Samples == 0 {
		p.FirstSeen = s.Stamp
	}
	p.Samples++
	p.PPID, p.Command, p.LastSeen = r.PPID, r.Command, s.Stamp
	p.series.add(s, r.Readings)
}

// startAtZero sets the base of every counter to 0 at a moment before the first reading.
func (set *seriesSet) startAtZero(readings Readings, at Stamp) {
	for _, r := range readings {
		if m := rowOf(r.id); m != nil && m.Kind == Counter {
			*set = append(*set, series{id: r.id, kind: Counter, baseAt: at, lastAt: at, based: true})
		}
	}
}
