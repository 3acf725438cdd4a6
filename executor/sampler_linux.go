// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// sampler reads the task on request. It reads nothing on its own; readers share collections through caches.
// Totals are kept apart from whole samples, so that a reader who wants no process rows pays for none.
type sampler struct {
	target source.Target
	whole  procstats.Selection

	// final is the task's last sample, once it has ended.
	final atomic.Pointer[procstats.Sample]
	cost  cost
	pacer *pace.Pacer

	wholeCache  *source.Cache
	totalsCache *source.Cache

	collecting sync.Mutex // guards following: one collection at a time
	totals     *source.Collector
	rows       *source.Collector
	recent     recent
	outside    int                         // the processes that left was told of
	left       func([]procstats.ProcessID) // is called when another process was seen outside the task's cgroup
}

// recent are the newest samples of a task that had a process, for whomever they were taken.
type recent struct {
	// last and before are the newest two, without their rows.
	last, before *procstats.Sample
	// rows is the newest with rows that the caller has taken, and handed over; nil if there is none.
	rows *procstats.Sample
}

func (r *recent) add(s *procstats.Sample) {
	if !record.Inhabited(s) {
		return
	}
	totals := *s
	totals.Processes, totals.Omitted = nil, 0
	r.before, r.last = r.last, &totals
}

// cost counts what the sampling itself takes.
type cost struct {
	collections atomic.Int64
	nanoseconds atomic.Int64
}

// include counts what a sample of another reader says, which has in it what this one had counted by then.
func (c *cost) include(s *procstats.Sample) {
	if n, ok := s.Task.Number(procstats.ExecutorCollections); ok {
		c.collections.Store(max(c.collections.Load(), int64(n)))
	}
	if seconds, ok := s.Task.Number(procstats.ExecutorCollectSeconds); ok {
		c.nanoseconds.Store(max(c.nanoseconds.Load(), int64(math.Round(seconds*float64(time.Second)))))
	}
}

func newSampler(target source.Target, selection procstats.Selection, pacer *pace.Pacer, packets *network.Source) *sampler {
	s := &sampler{target: target, whole: selection, pacer: pacer}
	totals, rows := source.Split(target, selection)
	s.totals = source.Open(target, totals, &selfSource{selection: selection, cost: &s.cost, pacer: pacer}, packets)
	s.rows = source.Open(target, rows)
	collectWhole := s.remembered(func(into *procstats.Sample) {
		source.CollectAll(into, s.rows, s.totals)
	})
	s.wholeCache = source.NewCache(collectWhole, nil)
	s.totalsCache = s.wholeCache
	if !rows.Empty() {
		s.totalsCache = source.NewCache(s.remembered(s.totals.Collect), nil)
	}
	return s
}

// before reads what the task's counters start from, before any reader. No cache gets it: a reader who is served
// a cached sample would take gauges of no process for those of the task.
func (s *sampler) before() *procstats.Sample {
	baseline := &procstats.Sample{}
	s.timed(s.totals.CollectBefore)(baseline)
	return baseline
}

// timed collects and counts what it took.
func (s *sampler) timed(collect func(*procstats.Sample)) func(*procstats.Sample) {
	return func(into *procstats.Sample) {
		s.collecting.Lock()
		defer s.collecting.Unlock()
		if final := s.final.Load(); final != nil {
			*into = *final
			return
		}
		began := time.Now()
		collect(into)
		s.cost.collections.Add(1)
		s.cost.nanoseconds.Add(int64(time.Since(began)))
	}
}

// remembered is timed, and puts what it reads of a running task among the recent samples.
func (s *sampler) remembered(collect func(*procstats.Sample)) func(*procstats.Sample) {
	return s.timed(func(into *procstats.Sample) {
		collect(into)
		s.recent.add(into)
		s.reportOutside()
	})
}

// reportOutside tells left of the processes that run outside the task's cgroup, if there are more than before.
func (s *sampler) reportOutside() {
	seen := append(s.rows.Outside(), s.totals.Outside()...)
	if len(seen) > s.outside && s.left != nil {
		s.left(seen)
	}
	s.outside = len(seen)
}

// newest returns the recent samples.
func (s *sampler) newest() recent {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	return s.recent
}

// get returns a sample that is not older than maxAge.
func (s *sampler) get(maxAge time.Duration, rows bool) *procstats.Sample {
	if final := s.final.Load(); final != nil {
		return final
	}
	if rows {
		return s.wholeCache.Get(maxAge)
	}
	if latest := s.wholeCache.Latest(); latest != nil && kernel.Now().Mono-latest.Mono <= maxAge {
		return s.totalsOf(latest)
	}
	return s.totalsCache.Get(maxAge)
}

// getFinal returns a whole sample that was begun after the call, when nothing is left of the task: a collection for
// another reader may be in progress that has read some of the totals before.
func (s *sampler) getFinal() *procstats.Sample { return s.wholeCache.GetNew() }

// totalsOf returns of a whole sample what a reader of totals always gets.
func (s *sampler) totalsOf(whole *procstats.Sample) *procstats.Sample {
	selection := s.totals.Selection()
	if selection == s.whole {
		return whole
	}
	return source.Only(whole, selection)
}

// lostChildren reports that processes of the task were not waited for, so that without a cgroup their time is lost.
func (s *sampler) lostChildren() bool {
	return !s.target.Cgroup.Encloses() && (s.totals.LostChildren() || s.rows.LostChildren())
}

// latest returns the newest whole sample without taking one; nil if there is none.
func (s *sampler) latest() *procstats.Sample {
	return s.wholeCache.Latest()
}

// describe says what each selected source can do here.
func (s *sampler) describe() []procstats.SourceDescription {
	return append(s.totals.Describe(), s.rows.Describe()...)
}

// close gives up the kernel files; readers that still ask get the final sample.
func (s *sampler) close(final *procstats.Sample) error {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	s.final.Store(final)
	return errors.Join(s.totals.Close(), s.rows.Close())
}

// ticks calls yield at once and then once per interval, or what the pace makes of it, at times that the executors of a host share, so that they wake a
// sleeping CPU together. It returns when ctx ends or yield returns false.
func ticks(ctx context.Context, p *pace.Pace, yield func() bool) {
	interval, more := p.Requested(), true
	next := func() bool {
		interval = p.Tick(func() { more = yield() })
		return more
	}
	if !next() {
		return
	}
	phase := tickPhase(os.Getpid(), p.Requested())
	untilNext := func() time.Duration { // at a tick of the requested interval, even if it is stretched
		return source.UntilTick(kernel.Now().Mono, p.Requested(), phase) + interval - p.Requested()
	}
	timer := time.NewTimer(untilNext())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if !next() {
			return
		}
		timer.Reset(untilNext())
	}
}

// tickPhases is how many groups the executors of a host tick in. All at once, five hundred of them, would keep everybody
// else waiting for tens of milliseconds each time: readers of the metrics, and the tasks.
const tickPhases = 10

// tickPhase is how long after the multiples of the interval an executor ticks. PIDs of executors that were started one
// after the other have a pattern; it is multiplied away, by 2^32 over the golden ratio.
func tickPhase(pid int, interval time.Duration) time.Duration {
	const golden = 2654435769
	group := uint64(uint32(pid)*golden) * tickPhases >> 32 //nolint:gosec // PIDs have 22 bits
	return interval / tickPhases * time.Duration(group)
}
