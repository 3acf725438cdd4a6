// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// CounterReading is a counter as it was read once.
type CounterReading struct {
	// Value is NaN if the counter was not read.
	Value float64
	// At is when its source was read, on the monotonic clock: one that is set, or a suspended machine, falsifies no rate.
	At time.Duration
	// Run is the start of the task that the counter is of: with each it begins anew.
	Run int
	// Source is the measurement that a headline was taken from: the counters of two have no difference.
	Source string
}

// shortestWindow is the shortest time over which a rate means anything: some counters move in ticks of 10 ms.
const shortestWindow = 20 * time.Millisecond

// GrowthSince returns how much a counter grew since an earlier reading, or the reason why that is not known.
func (c CounterReading) GrowthSince(before CounterReading) (growth float64, reason string) {
	switch {
	case math.IsNaN(c.Value) || math.IsNaN(before.Value):
		return 0, reasonUnread
	case c.Run != before.Run:
		return 0, reasonRun
	case c.Source != before.Source:
		return 0, reasonSource
	case c.Value < before.Value:
		return 0, reasonRestarted
	case c.At <= before.At:
		return 0, reasonClock
	}
	return c.Value - before.Value, ""
}

// RateSince returns how fast a counter grew since an earlier reading, per second, or the reason why that is not known.
func (c CounterReading) RateSince(before CounterReading) (rate float64, reason string) {
	growth, reason := c.GrowthSince(before)
	switch {
	case reason != "":
		return 0, reason
	case c.At-before.At < shortestWindow:
		return 0, reasonShort
	}
	return growth / (c.At - before.At).Seconds(), ""
}

// Rate returns how fast a counter of the task grew since an earlier sample, which may be nil, over the time between the
// reads of its source.
func (s *Sample) Rate(before *Sample, id ID) Reading {
	return withoutLate(s.growthRate(before, id), func(late ID) Reading { return s.growthRate(before, late) })
}

// withoutLate takes off a rate of TreeCPU what was used before the time that it is over; rateOf returns other rates
// over that time.
func withoutLate(rate Reading, rateOf func(id ID) Reading) Reading {
	if rate.id == TreeCPU && rate.present {
		late, _ := rateOf(TreeCPULate).Number()
		rate.number = max(0, rate.number-late)
	}
	return rate
}

func (s *Sample) growthRate(before *Sample, id ID) Reading {
	now := s.Task.newest(id, before)
	if !now.Present() {
		return now
	}
	before = s.Since(before, id)
	then, found := before.Task.Get(id)
	if !found || !then.Present() {
		return AbsentReading(id, reasonOne)
	}
	return s.rate(before, now, then)
}

// ProcessRate returns how fast a counter of a process grew since an earlier sample, which may be nil. The counter of a
// process that began since then is measured from 0: all it ever used, it used in that time.
func (s *Sample) ProcessRate(before *Sample, p *ProcessRow, id ID) Reading {
	now := p.Readings.newest(id, before)
	if !now.Present() {
		return now
	}
	before = s.Since(before, id)
	then := NumberReading(id, 0)
	i, known := slices.BinarySearchFunc(before.Processes, p.PID, func(row ProcessRow, pid int) int {
		return cmp.Compare(row.PID, pid)
	})
	if known && before.Processes[i].ProcessID == p.ProcessID {
		if then, known = before.Processes[i].Readings.Get(id); !known || !then.Present() {
			return AbsentReading(id, reasonOne)
		}
	} else if before.Omitted > 0 || len(before.Processes) == 0 || !p.bornSince(before.rowsFrom()) {
		return AbsentReading(id, reasonOne)
	}
	return s.rate(before, now, then)
}

// newest returns the reading that the growth since an earlier sample ends with, or why there is none.
func (rs Readings) newest(id ID, before *Sample) Reading {
	now, found := rs.Get(id)
	switch {
	case !found:
		return AbsentReading(id, reasonUnread)
	case now.Present() && before == nil:
		return AbsentReading(id, reasonOne)
	}
	return now
}

// Since returns the sample from which the growth of a measurement is counted: an earlier one, or the set of rows
// before that of s if both samples have the same set.
func (s *Sample) Since(before *Sample, id ID) *Sample {
	if before != nil && s.EarlierSet != nil && s.readAt(id).same(before.readAt(id)) {
		return s.EarlierSet
	}
	return before
}

// rowsFrom is the time from which on a process has no row in the sample, whenever it was born.
func (s *Sample) rowsFrom() Stamp {
	if set, ok := s.RowsAt(); ok && set.Mono < s.Mono {
		return set
	}
	return s.Stamp
}

// rate is that of a reading of this sample since one of an earlier sample.
func (s *Sample) rate(before *Sample, now, then Reading) Reading {
	at, earlier := s.readAt(now.id), before.readAt(now.id)
	if at.same(earlier) {
		return AbsentReading(now.id, reasonOne) // the source was not read again
	}
	reading := CounterReading{Value: now.number, At: at.Mono}
	return reading.rateSince(now.id, CounterReading{Value: then.number, At: earlier.Mono})
}

func (c CounterReading) rateSince(id ID, before CounterReading) Reading {
	rate, reason := c.RateSince(before)
	if reason != "" {
		return AbsentReading(id, reason)
	}
	return NumberReading(id, rate)
}

// bornSince reports whether a process that an earlier sample with all processes does not have began after it. Otherwise
// it was moved into the task, and what it used before is not the task's. Start times count ticks since boot, as
// CLOCK_MONOTONIC does but for the time that the machine was suspended.
func (id ProcessID) bornSince(sample Stamp) bool {
	// Divided and not multiplied: starts of systems that count them from 1970 would overflow.
	return id.Start >= uint64(max(0, sample.Mono/StartTick-1))
}
