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

// usage is the resource usage of a task for one line; nil is unknown.
type usage struct {
	// cores is CPU in cores; read and written are bytes per second; the pressures are the shares of time in which some
	// process waited, 0 to 1.
	cores                                   *float64
	memory, charged, peak, limit            *float64
	read, written                           *float64
	cpuPressure, memoryPressure, ioPressure *float64
	processes                               *float64
}

// numbers is one reading of a task, from its history or from a sample.
type numbers struct {
	// at is the monotonic clock of the agent's host, run counts the starts of the task.
	at     time.Duration
	run    int
	number func(procstats.ID) (float64, bool)
	// source returns the source of a headline; nil if the reading has no headlines.
	source func(procstats.ID) string
}

// counter returns a counter of the reading; ok is false if it was not read.
func (n *numbers) counter(id procstats.ID) (c procstats.CounterReading, ok bool) {
	value, ok := n.number(id)
	c = procstats.CounterReading{Value: value, At: n.at, Run: n.run}
	if n.source != nil {
		c.Source = n.source(id)
	}
	return c, ok
}

// sinceBoot converts the seconds of the monotonic clock.
func sinceBoot(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// pointReading returns the reading of a point; nil for nil.
func pointReading(p *client.Point) *numbers {
	if p == nil {
		return nil
	}
	return &numbers{at: sinceBoot(p.Mono), run: p.Run, number: p.Number}
}

// sampleReading returns the reading of a sample; nil for nil.
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

// usageOf returns the usage of a reading. Rates need the reading before it, of the same start of the task.
func usageOf(now, before *numbers) usage {
	rate := func(ids ...procstats.ID) *float64 { return rateOf(now, before, ids...) }
	f := usage{
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

// first returns the first of ids that a reading has.
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

// rateOf returns the rate of the first of ids that has one between two readings.
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

// coresText returns CPU in cores as text.
func coresText(cores *float64) string {
	if cores == nil {
		return procstats.NoValue
	}
	return procstats.CoresText(*cores)
}

// pressureText returns the highest pressure and its resource, or procstats.NoValue.
func pressureText(f usage) string {
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

// treeLine is a process with its indentation in the tree.
type treeLine struct {
	process *client.Process
	indent  string
}

// processTree sorts processes so that children follow their parents, by PID.
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
		delete(children, row.PID) // breaks a cycle, which a reused PID can cause
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
