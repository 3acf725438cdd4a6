// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/agent/client"
	"github.com/tachograph/tacho/procstats"
)

// figures are the numbers of a task that fit a line. What is not known is nil.
type figures struct {
	// cores is CPU in cores; read and written are bytes a second; the pressures are the shares of the time in which
	// somebody waited, 0 to 1.
	cores                                   *float64
	memory, charged, peak, limit            *float64
	read, written                           *float64
	cpuPressure, memoryPressure, ioPressure *float64
	processes                               *float64
}

// numbers is one reading of a task, from wherever it is.
type numbers struct {
	// at is the monotonic clock, run what start of the task it is.
	at     time.Duration
	run    int
	number func(procstats.ID) (float64, bool)
	// source is what a headline was taken from; nil if there are none.
	source func(procstats.ID) string
}

// counter is one that the reading has; ok is false where it was not read.
func (n *numbers) counter(id procstats.ID) (c procstats.CounterReading, ok bool) {
	value, ok := n.number(id)
	c = procstats.CounterReading{Value: value, At: n.at, Run: n.run}
	if n.source != nil {
		c.Source = n.source(id)
	}
	return c, ok
}

// sinceBoot is the monotonic clock of the agent's machine, which is written in seconds.
func sinceBoot(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// pointReading is a reading of the history; nil of nil.
func pointReading(p *client.Point) *numbers {
	if p == nil {
		return nil
	}
	return &numbers{at: sinceBoot(p.Mono), run: p.Run, number: p.Number}
}

// sampleReading is a reading as it was just asked for; nil of nil.
func sampleReading(s *client.Sample, run int) *numbers {
	if s == nil {
		return nil
	}
	number := func(id procstats.ID) (float64, bool) {
		if value, ok := s.Headlined(id); ok {
			return value, true
		}
		return s.Number(id)
	}
	source := func(id procstats.ID) string { return s.Headline[id.String()].Source }
	return &numbers{at: sinceBoot(s.Mono), run: run, number: number, source: source}
}

// figuresOf returns the figures of a reading; those that are rates are since the one before it, where there is one of
// the same start.
func figuresOf(now, before *numbers) figures {
	rate := func(ids ...procstats.ID) *float64 { return rateOf(now, before, ids...) }
	f := figures{
		cores:          rate(procstats.HeadlineCPU, procstats.CgroupCPUUsage, procstats.TreeCPU, procstats.PortableCPU),
		memory:         first(now, procstats.HeadlineMemory),
		charged:        first(now, procstats.HeadlineMemoryCharged, procstats.CgroupMemoryCurrent),
		peak:           first(now, procstats.HeadlineMemoryPeak, procstats.CgroupMemoryPeak),
		limit:          first(now, procstats.CgroupMemoryMax),
		read:           rate(procstats.HeadlineIORead, procstats.CgroupIORead, procstats.TreeIORead),
		written:        rate(procstats.HeadlineIOWrite, procstats.CgroupIOWrite, procstats.TreeIOWrite),
		cpuPressure:    rate(procstats.PSICPUSome),
		memoryPressure: rate(procstats.PSIMemorySome),
		ioPressure:     rate(procstats.PSIIOSome),
		processes:      first(now, procstats.TreeProcesses, procstats.PortableProcesses),
	}
	if f.cores == nil {
		f.cores = first(now, procstats.HeadlineCores)
	}
	if f.memory == nil {
		f.memory = first(now, procstats.TreeRSS, procstats.PortableRSS)
	}
	return f
}

// first is the first of some measurements that a reading has.
func first(now *numbers, ids ...procstats.ID) *float64 {
	if now == nil {
		return nil
	}
	for _, id := range ids {
		if value, ok := now.number(id); ok {
			return &value
		}
	}
	return nil
}

// rateOf is how fast the first of some counters that has a rate grew between two readings.
func rateOf(now, before *numbers, ids ...procstats.ID) *float64 {
	if now == nil || before == nil {
		return nil
	}
	for _, id := range ids {
		c, okNow := now.counter(id)
		earlier, okBefore := before.counter(id)
		if !okNow || !okBefore {
			continue
		}
		if rate, reason := c.RateSince(earlier); reason == "" {
			return &rate
		}
	}
	return nil
}

// coresText writes CPU in cores.
func coresText(cores *float64) string {
	if cores == nil {
		return procstats.NoValue
	}
	return procstats.CoresText(*cores)
}

// pressureText is what a task waits for most, and for how much of its time; the dash where that is not known.
func pressureText(f figures) string {
	word, most, known := "", 0.0, false
	for _, p := range []struct {
		word  string
		share *float64
	}{{"cpu", f.cpuPressure}, {"memory", f.memoryPressure}, {"io", f.ioPressure}} {
		if p.share == nil {
			continue
		}
		known = true
		if *p.share > most {
			word, most = p.word, *p.share
		}
	}
	if !known {
		return procstats.NoValue
	}
	return strings.TrimSpace(procstats.Share.Text(min(most, 1)) + " " + word)
}

// treeLine is a process with where it stands in the tree.
type treeLine struct {
	process *client.Process
	indent  string
}

// processTree orders processes so that children stand below their parents, each by PID.
func processTree(rows []client.Process) []treeLine {
	byPID := make(map[int]bool, len(rows))
	children := map[int][]*client.Process{}
	for i := range rows {
		byPID[rows[i].PID] = true
	}
	var roots []*client.Process
	for i := range rows {
		row := &rows[i]
		if byPID[row.PPID] && row.PPID != row.PID {
			children[row.PPID] = append(children[row.PPID], row)
		} else {
			roots = append(roots, row)
		}
	}
	order := func(a, b *client.Process) int { return a.PID - b.PID }
	lines := make([]treeLine, 0, len(rows))
	var walk func(row *client.Process, indent string)
	walk = func(row *client.Process, indent string) {
		lines = append(lines, treeLine{row, indent})
		below := children[row.PID]
		delete(children, row.PID) // a circle, which a reused PID can make, ends here
		slices.SortFunc(below, order)
		for _, child := range below {
			walk(child, indent+"  ")
		}
	}
	slices.SortFunc(roots, order)
	for _, root := range roots {
		walk(root, "")
	}
	return lines
}
