// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/source"
)

const (
	// lookTime is how long every sample has rows of its own after somebody has asked for them: they ask once or twice a second.
	lookTime = 3 * time.Second
	// youngShare of the time that a task is read for may be missing from its rows: those of a young task are read more often.
	youngShare = 10
)

// sets are the sets of process rows of a task. To read all processes costs more than everything else, so it is not done for every
// sample; those between have the newest set, with its time.
type sets struct {
	interval time.Duration
	// rows has the measurements that are read together with the processes.
	rows procstats.Selection
	// since is when the first set was read, dueAt when the next one is.
	since, dueAt time.Duration
	newest       *procstats.Sample
	// lookedUntil is a time.Duration on the monotonic clock.
	lookedUntil atomic.Int64
}

// look has rows read for every sample for a while.
func (s *sets) look(now time.Duration) { s.lookedUntil.Store(int64(now + lookTime)) }

func (s *sets) looked(now time.Duration) bool { return now < time.Duration(s.lookedUntil.Load()) }

// due reports whether the next sample needs rows of its own. Those of processes outside the cgroup are in every sample, because
// the cgroup's totals are not the task's then.
func (s *sets) due(now time.Duration) bool {
	return s.newest == nil || s.rows.Empty() || now >= s.dueAt || s.looked(now) || strays(s.newest)
}

// strays reports whether a process is or was outside the cgroup.
func strays(set *procstats.Sample) bool {
	for id := procstats.TreeOutside; id <= procstats.TreeLeftPressure; id++ {
		if n, _ := set.Task.Number(id); n > 0 {
			return true
		}
	}
	return false
}

// add makes a sample with rows the newest set; phase is when in the interval the next one is due.
func (s *sets) add(sample *procstats.Sample, phase time.Duration) {
	if s.since == 0 {
		s.since = sample.Mono
	}
	if s.newest != nil {
		sample.EarlierSet = s.reduced()
	}
	young := max(0, sample.Mono-s.since) / youngShare
	s.newest, s.dueAt = sample, sample.Mono+min(source.UntilTick(sample.Mono, s.interval, phase), young)
}

// reduced is the newest set without what was not read together with its rows.
func (s *sets) reduced() *procstats.Sample {
	set := *s.newest
	set.Task, set.EarlierSet = nil, nil
	s.addReadings(&set)
	return &set
}

// carry gives a sample without rows those of the newest set.
func (s *sets) carry(sample *procstats.Sample) {
	sample.Processes, sample.Omitted, sample.EarlierSet = s.newest.Processes, s.newest.Omitted, s.newest.EarlierSet
	for source, at := range s.newest.Sources.All() {
		if sample.Sources.At(source).Zero() {
			sample.SetRead(source, at)
		}
	}
	s.addReadings(sample)
}

func (s *sets) addReadings(to *procstats.Sample) {
	n := 0
	for _, reading := range s.newest.Task {
		if s.rows.Has(reading.ID()) {
			n++
		}
	}
	to.Task = slices.Grow(to.Task, n)
	for _, reading := range s.newest.Task {
		if s.rows.Has(reading.ID()) {
			to.Task.Put(reading)
		}
	}
}
