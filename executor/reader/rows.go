// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package reader

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/source"
)

const (
	// lookTime is how long every sample has rows of its own after they were asked for: viewers ask once or twice a
	// second.
	lookTime = 3 * time.Second
	// youngShare of the time that a task is read for may be missing from its rows: those of a young task are read
	// more often.
	youngShare = 10
)

// rows are the sets of process rows of a task. To read all processes costs more than everything else, so it is not
// done for every sample; the samples between two sets have the newest one, with its time.
type rows struct {
	// interval is the time between two sets; 0 reads them only when they are asked for, and no other sample has rows.
	interval time.Duration
	// selection has the measurements that are read together with the processes.
	selection procstats.Selection
	// since is when the first set was read, dueAt when the next one is.
	since, dueAt time.Duration
	newest       *procstats.Sample
	// wanted asks for rows in the next sample, and lookedUntil, a time.Duration on the monotonic clock, in all until
	// then.
	wanted      atomic.Bool
	lookedUntil atomic.Int64
}

// look has rows read for every sample for a while.
func (r *rows) look(now time.Duration) { r.lookedUntil.Store(int64(now + lookTime)) }

func (r *rows) looked(now time.Duration) bool { return now < time.Duration(r.lookedUntil.Load()) }

// due reports whether the next sample needs rows of its own. Those of processes outside the cgroup are in every
// sample, because the cgroup's totals are not the task's then.
func (r *rows) due(now time.Duration) bool {
	wanted := r.wanted.Swap(false)
	if r.interval == 0 {
		return wanted
	}
	return wanted || r.newest == nil || r.selection.Empty() || now >= r.dueAt || r.looked(now) || outside(r.newest)
}

// outside reports whether a process is or was outside the cgroup.
func outside(set *procstats.Sample) bool {
	return slices.ContainsFunc([]procstats.ID{
		procstats.TreeOutside, procstats.TreeOutsideCPU,
		procstats.TreeLeftCPU, procstats.TreeLeftMemory, procstats.TreeLeftIO, procstats.TreeLeftPressure,
	}, func(id procstats.ID) bool {
		n, _ := set.Task.Number(id)
		return n > 0
	})
}

// add makes a sample with rows the newest set; phase is when in the interval the next one is due.
func (r *rows) add(sample *procstats.Sample, phase time.Duration) {
	if r.interval == 0 {
		r.newest = sample
		return
	}
	r.since = cmp.Or(r.since, sample.Mono)
	if r.newest != nil {
		sample.EarlierSet = r.reduced()
	}
	young := max(0, sample.Mono-r.since) / youngShare
	r.newest, r.dueAt = sample, sample.Mono+min(source.UntilTick(sample.Mono, r.interval, phase), young)
}

// reduced is the newest set without what was not read together with its rows.
func (r *rows) reduced() *procstats.Sample {
	set := *r.newest
	set.Task, set.EarlierSet = nil, nil
	r.addReadings(&set)
	return &set
}

// carry gives a sample without rows those of the newest set.
func (r *rows) carry(sample *procstats.Sample) {
	sample.Processes, sample.Omitted, sample.EarlierSet = r.newest.Processes, r.newest.Omitted, r.newest.EarlierSet
	for source, at := range r.newest.Sources.All() {
		if sample.Sources.At(source).Zero() {
			sample.SetRead(source, at)
		}
	}
	r.addReadings(sample)
}

func (r *rows) addReadings(to *procstats.Sample) {
	n := 0
	for _, reading := range r.newest.Task {
		if r.selection.Has(reading.ID()) {
			n++
		}
	}
	to.Task = slices.Grow(to.Task, n)
	to.Task.PutSelected(r.newest.Task, r.selection)
}
