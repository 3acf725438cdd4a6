// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sampling

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/procstats"
)

const (
	// firstAsk and longestAsk are the times between two questions for what the executor has read: while it has
	// nothing new, each is twice as long as the one before.
	firstAsk   = time.Second
	longestAsk = 10 * time.Second
	// slowLimit bounds the wait for the answer.
	slowLimit = 30 * time.Second
)

// slowSource has the measurements of sources that may take long, and would keep all other tasks waiting. The executor
// reads them, on clocks of its own: each sample has the newest that it has answered with, and their time.
type slowSource struct {
	ctx       context.Context // of the reading
	executor  Executor
	selection procstats.Selection
	rows      bool // some are of processes, or take the processes
	work      sync.WaitGroup
	asking    atomic.Bool
	newest    atomic.Pointer[procstats.Sample] // the executor's, nil before the first
	// askAt is when it is asked next, wait the time until then; collected is the sample that was last collected from.
	askAt, wait time.Duration
	collected   *procstats.Sample
}

// newSlowSource takes its part of a selection, and begins with a sample that the executor has answered with.
func newSlowSource(
	ctx context.Context, executor Executor, selection procstats.Selection, first *procstats.Sample,
) *slowSource {
	smaps := procstats.SourceSelection(procstats.SourceSmaps)
	own := selection.Minus(selection.Minus(smaps.Union(procstats.SourceSelection(procstats.SourceDisk))))
	s := &slowSource{ctx: ctx, executor: executor, selection: own, rows: own.HasSource(procstats.SourceSmaps)}
	if s.differ(first, &procstats.Sample{}) {
		s.newest.Store(first)
	}
	return s
}

// differ reports whether two samples have other readings of slow sources.
func (s *slowSource) differ(a, b *procstats.Sample) bool {
	return a != b && (a == nil || b == nil || a.Sources.At(procstats.SourceDisk) != b.Sources.At(procstats.SourceDisk) ||
		a.Sources.At(procstats.SourceSmaps) != b.Sources.At(procstats.SourceSmaps))
}

// Ask implements reader.Slow.
func (s *slowSource) Ask(now time.Duration) (answered bool) {
	if s.selection.Empty() {
		return false
	}
	newest := s.newest.Load()
	answered = s.differ(newest, s.collected)
	if now >= s.askAt && s.asking.CompareAndSwap(false, true) {
		if s.wait = min(2*s.wait, longestAsk); answered || s.wait == 0 {
			s.wait = firstAsk
		}
		s.askAt = now + s.wait
		s.work.Go(func() {
			defer s.asking.Store(false)
			ctx, cancel := context.WithTimeout(s.ctx, slowLimit)
			defer cancel()
			if sample, err := s.executor.Sample(ctx, 0, s.rows); err == nil { // else the task has ended, which the loop sees
				s.newest.Store(sample)
			}
		})
	}
	return answered
}

// Selection implements reader.Slow.
func (s *slowSource) Selection() procstats.Selection { return s.selection }

// Describe implements source.Source: the record's descriptions are the executor's.
func (s *slowSource) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: procstats.SourceDisk, Available: true}
}

// Collect implements source.Source. The rows are those that were read just before.
func (s *slowSource) Collect(into *procstats.Sample) {
	if s.selection.Empty() {
		return
	}
	s.Ask(into.Mono)
	s.collected = s.newest.Load()
	if s.collected == nil {
		s.putAbsent(into)
		return
	}
	for _, id := range [...]procstats.SourceID{procstats.SourceDisk, procstats.SourceSmaps} {
		if s.selection.HasSource(id) {
			into.SetRead(id, s.collected.Sources.At(id))
		}
	}
	into.Task.PutSelected(s.collected.Task, s.selection)
	theirs := make(map[procstats.ProcessID]procstats.Readings, len(s.collected.Processes))
	for i := range s.collected.Processes {
		theirs[s.collected.Processes[i].ProcessID] = s.collected.Processes[i].Readings
	}
	for i := range into.Processes {
		row := &into.Processes[i]
		row.Readings.PutSelected(theirs[row.ProcessID], s.selection)
	}
}

func (s *slowSource) putAbsent(into *procstats.Sample) {
	for _, id := range s.selection.IDs() {
		if m, _ := procstats.Lookup(id); m.Scope == procstats.TaskScope {
			into.SetAbsent(id, "the executor has not answered yet")
		}
	}
}

// Close implements source.Source.
func (s *slowSource) Close() error { return nil }
