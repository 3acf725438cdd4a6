// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// sampler reads the task for whoever asks. It opens its sources at the first question and reads nothing on its
// own; readers share collections through caches. Totals are kept apart from whole samples, so that a reader who
// wants no process rows pays for none.
type sampler struct {
	target procstats.Target
	whole  procstats.Selection
	totals procstats.Selection

	// final is the task's last sample, once it has ended.
	final atomic.Pointer[procstats.Sample]
	cost  cost

	opened       sync.Once
	wholeCache   *procstats.Cache
	totalsCache  *procstats.Cache
	collectors   sync.Mutex // guards following: one collection at a time
	wholeReader  *procstats.Collector
	totalsReader *procstats.Collector
}

// cost counts what the sampling itself takes.
type cost struct {
	collections atomic.Int64
	nanoseconds atomic.Int64
}

func newSampler(target procstats.Target, selection procstats.Selection) *sampler {
	totals := selection.Minus(procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Scope == procstats.ProcessScope || m.Source == procstats.SourceSmaps ||
			(m.Source == procstats.SourceTree || m.Source == procstats.SourceIO) && target.Cgroup.Exists()
	}))
	return &sampler{target: target, whole: selection, totals: totals}
}

func (s *sampler) open() {
	s.opened.Do(func() {
		s.wholeReader = s.collector(s.whole)
		s.totalsReader = s.collector(s.totals)
		s.wholeCache = procstats.NewCache(s.timed(s.wholeReader), nil)
		s.totalsCache = procstats.NewCache(s.timed(s.totalsReader), nil)
	})
}

func (s *sampler) collector(selection procstats.Selection) *procstats.Collector {
	return procstats.Open(s.target, selection, &selfSource{selection: selection, cost: &s.cost})
}

// timed collects and counts what it took.
func (s *sampler) timed(c *procstats.Collector) func(*procstats.Sample) {
	return func(into *procstats.Sample) {
		s.collectors.Lock()
		defer s.collectors.Unlock()
		if final := s.final.Load(); final != nil {
			*into = *final
			return
		}
		began := time.Now()
		c.Collect(into)
		s.cost.collections.Add(1)
		s.cost.nanoseconds.Add(int64(time.Since(began)))
	}
}

// get returns a sample that is not older than maxAge.
func (s *sampler) get(maxAge time.Duration, rows bool) *procstats.Sample {
	s.open()
	if final := s.final.Load(); final != nil {
		return final
	}
	if rows {
		return s.wholeCache.Get(maxAge)
	}
	if latest := s.wholeCache.Latest(); latest != nil && procstats.Now().Mono-latest.Mono <= maxAge {
		return latest
	}
	return s.totalsCache.Get(maxAge)
}

// latest returns the newest whole sample, nil where there is none.
func (s *sampler) latest() *procstats.Sample {
	s.open()
	return s.wholeCache.Latest()
}

// describe says what each selected source can do here.
func (s *sampler) describe() []procstats.Description {
	s.open()
	return s.wholeReader.Describe()
}

// close gives up the kernel files; readers that still ask get the final sample.
func (s *sampler) close(final *procstats.Sample) error {
	s.open()
	s.collectors.Lock()
	defer s.collectors.Unlock()
	s.final.Store(final)
	return errors.Join(s.wholeReader.Close(), s.totalsReader.Close())
}

// ticks calls yield at once and then at every multiple of the interval on CLOCK_MONOTONIC, which all executors of
// a host share, so that they wake a sleeping CPU together. It returns when ctx ends or yield returns false.
func ticks(ctx context.Context, interval time.Duration, yield func() bool) {
	if !yield() {
		return
	}
	timer := time.NewTimer(untilTick(procstats.Now().Mono, interval))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if !yield() {
			return
		}
		timer.Reset(untilTick(procstats.Now().Mono, interval))
	}
}

// untilTick is the time to the next multiple of interval; a tick that is less than a tenth of an interval away is
// left to the one before it, so that a timer which fired early does not fire twice.
func untilTick(now, interval time.Duration) time.Duration {
	left := interval - now%interval
	if left < interval/10 {
		left += interval
	}
	return left
}
