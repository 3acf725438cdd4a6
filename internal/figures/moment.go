// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package figures

import (
	"math"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// Quantity is one of the numbers of a task that surfaces draw, list and sort by.
type Quantity int

// Quantities. Those with a headline are taken from where the headline is.
const (
	CPU           Quantity = iota // CPU seconds
	Cores                         // of the agent's own window
	Memory                        // that cannot be reclaimed
	MemoryCharged                 // with page cache
	MemoryPeak
	Read    // bytes from storage
	Written // bytes that the task writes, see procstats.Writing
	Received
	Sent
	WaitCPU // seconds in which some process waited
	WaitMemory
	WaitIO
	Throttled
	ThrottledAbove // by quotas of cgroups above its own
	OOMKills
	MemoryLimit
	Quota
	Disk
	PSS
	Processes
	Outside // processes outside the cgroup that pressure is read of
	late    // CPU seconds that were used before they were seen
	quantities

	headlined = Sent + 1 // the quantities before have a headline
)

// headlineOf has the headline of each quantity with one. Written has that of procstats.Writing.
//
//nolint:gochecknoglobals // a constant table
var headlineOf = [headlined]procstats.ID{
	CPU: procstats.HeadlineCPU, Cores: procstats.HeadlineCores, Memory: procstats.HeadlineMemory,
	MemoryCharged: procstats.HeadlineMemoryCharged, MemoryPeak: procstats.HeadlineMemoryPeak,
	Read: procstats.HeadlineIORead, Written: procstats.HeadlineIOWrite,
	Received: procstats.HeadlineNetworkReceived, Sent: procstats.HeadlineNetworkSent,
}

// measurementOf has the measurement of each other quantity.
//
//nolint:gochecknoglobals // a constant table
var measurementOf = [quantities]procstats.ID{
	WaitCPU: procstats.PSICPUSome, WaitMemory: procstats.PSIMemorySome, WaitIO: procstats.PSIIOSome,
	Throttled: procstats.CgroupCPUThrottled, ThrottledAbove: procstats.CgroupCPUAncestorThrottled,
	OOMKills: procstats.CgroupMemoryEventsOOMKill, MemoryLimit: procstats.CgroupMemoryMax,
	Quota: procstats.CgroupCPUQuota, Disk: procstats.DiskUsage, PSS: procstats.SmapsPSS,
	Processes: procstats.TreeProcesses,
	Outside:   procstats.TreeLeftPressure, late: procstats.TreeCPULate,
}

// Moment has the numbers of one reading of a task. What was not measured is NaN.
type Moment struct {
	procstats.Stamp
	// Run counts the starts of the task: counters begin anew with each.
	Run int
	// Gap says why there are no numbers, of a moment that stands for a time without readings.
	Gap    series.Gap
	values [quantities]float64
	// sources are what the headlines were taken from: the counters of two sources have no difference.
	sources [headlined]string
}

// Lookup returns the number of a measurement; ok is false if it was not read.
type Lookup = func(procstats.ID) (value float64, ok bool)

// NewGap returns a moment without numbers.
func NewGap(at procstats.Stamp, run int, why series.Gap) Moment {
	m := Moment{Stamp: at, Run: run, Gap: why}
	for q := range m.values {
		m.values[q] = math.NaN()
	}
	return m
}

// MomentOf returns the numbers of a reading from its measurements and headlines.
func MomentOf(at procstats.Stamp, run int, number Lookup, headlines []procstats.HeadlineValue) Moment {
	m := NewGap(at, run, series.NoGap)
	for q := headlined; q < quantities; q++ {
		if v, ok := number(measurementOf[q]); ok {
			m.values[q] = v
		}
	}
	if v, ok := number(procstats.PortableProcesses); ok {
		m.values[Processes] = v
	}
	for q, id := range headlineOf {
		if id == procstats.HeadlineIOWrite {
			id = procstats.Writing(headlines)
		}
		h, _ := Headline(headlines, id)
		if v, ok := h.Reading.Number(); ok {
			m.values[q], m.sources[q] = v, h.Source
		}
	}
	return m
}

// MomentOfValues returns the numbers of a reading whose headlines have lost their sources, as those in a history have.
// They are made again, except the peak, which depends on all readings.
func MomentOfValues(at procstats.Stamp, run int, number Lookup) Moment {
	w := scratch.Get().(*scrap)
	defer w.free()
	s := &w.sample
	s.Stamp = at
	for _, id := range momentNeeds() {
		if v, ok := number(id); ok {
			s.SetNumber(id, v)
		}
	}
	w.list = procstats.HeadlinesInto(w.list, s, procstats.History{})
	m := MomentOf(at, run, number, w.list)
	if v, ok := number(procstats.HeadlineMemoryPeak); ok {
		m.values[MemoryPeak] = v
	}
	return m
}

// momentNeeds are the measurements that the headlines of a moment are taken from.
//
//nolint:gochecknoglobals // a constant list
var momentNeeds = sync.OnceValue(func() []procstats.ID {
	return procstats.Select(append(headlineOf[:], procstats.HeadlineIOHanded)...).IDs()
})

// Value returns the number of a quantity, or NaN.
func (m *Moment) Value(q Quantity) float64 { return m.values[q] }

// Raise makes a quantity at least a number.
func (m *Moment) Raise(q Quantity, least float64) {
	if v := m.values[q]; least > v || math.IsNaN(v) {
		m.values[q] = least
	}
}

// Follows reports whether counters went on from an earlier moment to this one.
func (m *Moment) Follows(earlier *Moment) bool {
	return earlier.Gap == series.NoGap && m.Gap == series.NoGap && earlier.Run == m.Run && m.Mono > earlier.Mono
}

// counter is a quantity that only grows.
func (m *Moment) counter(q Quantity) procstats.CounterReading {
	c := procstats.CounterReading{Value: m.values[q], At: m.Mono, Run: m.Run}
	if q < headlined {
		c.Source = m.sources[q]
	}
	return c
}

// Rate returns the growth of a quantity per second since an earlier moment, which may be nil, or NaN. CPU time that was
// used before it was seen, by processes that were found late, is left out: a cgroup counts it when it is used.
func (m *Moment) Rate(before *Moment, q Quantity) float64 {
	if before == nil {
		return math.NaN()
	}
	rate, reason := m.counter(q).RateSince(before.counter(q))
	if reason != "" {
		return math.NaN()
	}
	if q == CPU && m.sources[CPU] == procstats.TreeCPU.String() {
		if late := m.Rate(before, late); !math.IsNaN(late) {
			return max(0, rate-late)
		}
	}
	return rate
}

// Kills returns the OOM kills since an earlier moment.
func (m *Moment) Kills(before *Moment) int64 {
	kills, _ := m.counter(OOMKills).GrowthSince(before.counter(OOMKills))
	return int64(kills)
}

// Waits returns what the task waited for since an earlier moment, in each second.
func (m *Moment) Waits(before *Moment) record.Waits {
	rate := func(q Quantity) *float64 { return Known(m.Rate(before, q)) }
	return record.Waits{
		Wall: time.Second, CPU: rate(CPU), Throttled: rate(Throttled), AncestorThrottled: rate(ThrottledAbove),
		CPUSome: rate(WaitCPU), MemorySome: rate(WaitMemory), IOSome: rate(WaitIO), Left: Known(m.values[Outside]),
	}
}

// Known returns a number, or nil if it is NaN.
func Known(value float64) *float64 {
	if math.IsNaN(value) {
		return nil
	}
	return &value
}
