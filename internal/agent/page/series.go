// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"math"
	"time"

	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// quantity is one of the numbers that charts are drawn from.
type quantity int

const (
	cpuSeconds quantity = iota
	memoryNeeded
	memoryCharged
	ioRead
	ioWrite
	stallCPU
	stallMemory
	stallIO
	throttled
	throttledAbove
	oomKills
	memoryMax
	cpuQuota
	diskUsage
	pss
	leftPressure
	networkReceived
	networkSent
	// cpuLate and cpuInCgroup say what of the CPU time was used before it was seen: see moment.rate.
	cpuLate
	cpuInCgroup
	quantities
)

// plain are the quantities that are one measurement each; the others are headlines.
//
//nolint:gochecknoglobals // a constant table
var plain = [quantities]procstats.ID{
	stallCPU: procstats.PSICPUSome, stallMemory: procstats.PSIMemorySome,
	stallIO: procstats.PSIIOSome, throttled: procstats.CgroupCPUThrottled,
	throttledAbove: procstats.CgroupCPUAncestorThrottled, oomKills: procstats.CgroupMemoryEventsOOMKill,
	memoryMax: procstats.CgroupMemoryMax, cpuQuota: procstats.CgroupCPUQuota,
	diskUsage: procstats.DiskUsage, pss: procstats.SmapsPSS,
	leftPressure: procstats.TreeLeftPressure, cpuLate: procstats.TreeCPULate, cpuInCgroup: procstats.CgroupCPUUsage,
}

// chosen are the quantities that are headlines.
//
//nolint:gochecknoglobals // a constant table
var chosen = [...]struct {
	quantity quantity
	id       procstats.ID
}{
	{cpuSeconds, procstats.HeadlineCPU},
	{memoryNeeded, procstats.HeadlineMemory},
	{memoryCharged, procstats.HeadlineMemoryCharged},
	{ioRead, procstats.HeadlineIORead},
	{ioWrite, procstats.HeadlineIOWrite},
	{networkReceived, procstats.HeadlineNetworkReceived},
	{networkSent, procstats.HeadlineNetworkSent},
}

// moment is what charts need of one reading. Absent quantities are NaN.
type moment struct {
	procstats.Stamp
	run    int
	gap    series.Gap
	values [quantities]float64
	// sources are what the headlines were taken from: counters of two sources have no difference.
	sources [len(chosen)]string
}

// condenser makes moments. It is used by one goroutine at a time.
type condenser struct {
	needs  []procstats.ID
	sample procstats.Sample
}

func newCondenser() *condenser {
	return &condenser{needs: procstats.Select(
		procstats.HeadlineCPU, procstats.HeadlineMemory, procstats.HeadlineMemoryCharged,
		procstats.HeadlineIORead, procstats.HeadlineIOWrite, procstats.HeadlineIOHanded,
		procstats.HeadlineNetworkReceived, procstats.HeadlineNetworkSent,
	).IDs()}
}

// point condenses a point of the history.
func (c *condenser) point(p series.Point) moment {
	if p.Gap != series.NoGap {
		return moment{Stamp: p.Stamp, run: p.Run, gap: p.Gap}
	}
	c.sample.Reset()
	c.sample.Stamp = p.Stamp
	for _, id := range c.needs {
		if v, ok := p.Values[id]; ok {
			c.sample.SetNumber(id, v)
		}
	}
	m := c.headlines(procstats.Headlines(&c.sample, procstats.History{}))
	m.Stamp, m.run = p.Stamp, p.Run
	if v, ok := p.Value(procstats.HeadlineMemory, procstats.Max); ok {
		m.values[memoryNeeded] = v // a peak within the step must not be lost
	}
	if v, ok := p.Value(procstats.HeadlineMemoryCharged, procstats.Max); ok {
		m.values[memoryCharged] = v
	}
	for q, id := range plain {
		if v, ok := p.Values[id]; ok && id != 0 {
			m.values[q] = v
		}
	}
	return m
}

// live condenses the newest reading.
func (c *condenser) live(s *procstats.Sample, headlines []procstats.HeadlineValue, run int) moment {
	m := c.headlines(headlines)
	m.Stamp, m.run = s.Stamp, run
	for q, id := range plain {
		if v, ok := s.Task.Number(id); ok && id != 0 {
			m.values[q] = v
		}
	}
	return m
}

func (c *condenser) headlines(list []procstats.HeadlineValue) (m moment) {
	for q := range m.values {
		m.values[q] = math.NaN()
	}
	for i, from := range chosen {
		id := from.id
		if id == procstats.HeadlineIOWrite {
			id = procstats.Writing(list)
		}
		for _, h := range list {
			if v, ok := h.Reading.Number(); ok && h.ID == id {
				m.values[from.quantity], m.sources[i] = v, h.Source
			}
		}
	}
	return m
}

// follows reports whether counters went on from an earlier moment to this one.
func (m *moment) follows(earlier *moment) bool {
	return earlier.gap == series.NoGap && m.gap == series.NoGap && earlier.run == m.run && m.Mono > earlier.Mono
}

// counter is a quantity that only grows.
func (m *moment) counter(q quantity) procstats.CounterReading {
	c := procstats.CounterReading{Value: m.values[q], At: m.Mono, Run: m.run}
	if m.gap != series.NoGap {
		c.Value = math.NaN()
	}
	for i, from := range chosen {
		if from.quantity == q {
			c.Source = m.sources[i]
		}
	}
	return c
}

// rate is the growth of a counter a second since an earlier moment, which may be nil; NaN if there is none. CPU time that was used
// before, by processes that were found late, is left out: no cgroup counts it when it is used.
func (m *moment) rate(earlier *moment, q quantity) float64 {
	if earlier == nil {
		return math.NaN()
	}
	rate, reason := m.counter(q).RateSince(earlier.counter(q))
	if reason != "" {
		return math.NaN()
	}
	if q == cpuSeconds && math.IsNaN(m.values[cpuInCgroup]) {
		if late := m.rate(earlier, cpuLate); !math.IsNaN(late) {
			return max(0, rate-late)
		}
	}
	return rate
}

// track is the recent past of a task, oldest first, with one moment a step.
type track struct {
	moments []moment
	// run is how many starts the task had when the track was read; another number makes it stale.
	restarts int
	// readAt is when the history was asked.
	readAt time.Time
	seen   time.Time
}

// before returns the youngest moment that counters go on from and that is at least a span older than now.
func (t *track) before(now *moment, span time.Duration) *moment {
	for i := len(t.moments) - 1; i >= 0; i-- {
		m := &t.moments[i]
		if m.Mono >= now.Mono && m.run == now.run && m.gap == series.NoGap {
			continue // the same reading, looked at twice
		}
		if !now.follows(m) {
			return nil
		}
		if now.Mono-m.Mono >= span {
			return m
		}
	}
	return nil
}

// add appends a reading once a step has gone by.
func (t *track) add(m moment, step time.Duration) {
	if n := len(t.moments); n == 0 || m.Wall.Sub(t.moments[n-1].Wall) >= step {
		t.moments = append(t.moments, m)
	}
}

// forget drops what is older than a moment.
func (t *track) forget(before time.Time) {
	i := 0
	for i < len(t.moments) && t.moments[i].Wall.Before(before) {
		i++
	}
	t.moments = t.moments[i:]
}
