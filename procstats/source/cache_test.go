// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// bubbleClock is a clock for synctest bubbles, whose time stands still unless every goroutine waits.
func bubbleClock() func() procstats.Stamp {
	begin := time.Now()
	return func() procstats.Stamp { return procstats.Stamp{Mono: time.Since(begin) + time.Hour, Wall: time.Now()} }
}

// cacheOver is a cache over what fills a sample of its own.
func cacheOver(collect func(*procstats.Sample), now func() procstats.Stamp) *Cache {
	return NewCache(func(latest *procstats.Sample) *procstats.Sample {
		sample := Sibling(latest)
		collect(sample)
		return sample
	}, now)
}

// wait blocks for a time that is simulated in a bubble.
func wait(d time.Duration) { <-time.After(d) }

func TestCacheSharesCollectionsOfAThousandReaders(t *testing.T) {
	for _, collecting := range []time.Duration{0, 20 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(collecting.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var read atomic.Int64
				c := cacheOver(func(s *procstats.Sample) {
					s.SetNumber(procstats.CgroupCPUUsage, float64(read.Add(1)))
					wait(collecting)
				}, bubbleClock())
				var readers sync.WaitGroup
				for i := range 1000 {
					readers.Go(func() {
						wait(time.Duration(i) * time.Millisecond)
						if _, ok := c.Get(time.Second).Task.Number(procstats.CgroupCPUUsage); !ok {
							t.Errorf("reader %d got a sample without its reading", i)
						}
					})
				}
				readers.Wait()
				if n := read.Load(); n < 1 || n > 2 || c.Collections() != n {
					t.Errorf("%d collections, %d counted, want 1 or 2", n, c.Collections())
				}
			})
		})
	}
}

func TestCacheAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cacheOver(func(*procstats.Sample) { wait(300 * time.Millisecond) }, bubbleClock())
		if s := c.Latest(); s != nil {
			t.Fatalf("Latest of an empty cache is %v", s)
		}
		first := c.Get(time.Second)
		if c.Latest() != first || first.Zero() {
			t.Errorf("Latest %p, Get %p, stamp %v", c.Latest(), first, first.Stamp)
		}
		wait(699 * time.Millisecond)
		if c.Get(time.Second) != first {
			t.Error("collected again although the sample began 999 ms ago")
		}
		wait(time.Millisecond)
		second := c.Get(time.Second)
		if second == first || c.Collections() != 2 {
			t.Error("not collected again although the sample began 1 s ago: age counts from the beginning")
		}
		if third := c.Get(0); third == second || c.Collections() != 3 {
			t.Error("a reader that asks for age 0 got an old sample")
		}
	})
}

func TestCacheSharesACollectionUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cacheOver(func(*procstats.Sample) { wait(time.Second) }, bubbleClock())
		var got [8]*procstats.Sample
		var readers sync.WaitGroup
		for i := range got {
			readers.Go(func() { got[i] = c.Get(0) })
		}
		synctest.Wait()
		if c.Collections() != 1 || c.Latest() != nil {
			t.Errorf("%d collections under way, latest %v", c.Collections(), c.Latest())
		}
		readers.Wait()
		for i := range got {
			if got[i] == nil || got[i] != got[0] {
				t.Errorf("reader %d got %p, reader 0 got %p", i, got[i], got[0])
			}
		}
	})
}

func TestCacheCollectsForReadersOfFreshSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := bubbleClock()
		var over atomic.Bool
		c := cacheOver(func(s *procstats.Sample) {
			s.Stamp = clock()
			if over.Load() {
				s.SetNumber(procstats.CgroupCPUUsage, 1)
			}
			wait(time.Second)
		}, clock)
		var reader sync.WaitGroup
		reader.Go(func() { c.Get(0) })
		wait(time.Millisecond)
		over.Store(true)
		asked := clock()
		s := c.GetNew()
		if _, ok := s.Task.Number(procstats.CgroupCPUUsage); !ok || s.Mono < asked.Mono || c.Collections() != 2 {
			t.Errorf("asked at %s, got a sample of %s after %d collections", asked.Mono, s.Mono, c.Collections())
		}
		if c.GetNew(); c.Collections() != 3 {
			t.Errorf("%d collections, want one more where none is under way", c.Collections())
		}
		reader.Wait()
	})
}

func TestCacheOutlivesACollectionThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := cacheOver(func(*procstats.Sample) {
			calls++
			wait(time.Second)
			if calls == 1 {
				panic("first")
			}
		}, bubbleClock())
		var readers sync.WaitGroup
		readers.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			c.Get(time.Minute)
		})
		synctest.Wait()
		if s := c.Get(time.Minute); s == nil || calls != 2 {
			t.Errorf("sample %v after %d calls", s, calls)
		}
		readers.Wait()
	})
}

func TestCacheOnAClockThatWentBack(t *testing.T) {
	now := procstats.Stamp{Mono: time.Hour}
	c := cacheOver(func(*procstats.Sample) {}, func() procstats.Stamp { return now })
	c.Get(time.Minute)
	now.Mono = time.Second // after a reboot
	c.Get(time.Minute)
	if n := c.Collections(); n != 2 {
		t.Errorf("%d collections, want a second one: what the other clock read is not young", n)
	}
}

// TestCacheIsSafeUnderRace overlaps readers with collections in real time, for the race detector: a published
// sample that is written to again, or a row shared by two samples, is a race.
func TestCacheIsSafeUnderRace(t *testing.T) {
	var inside atomic.Int32
	round := 0.0
	c := cacheOver(func(s *procstats.Sample) {
		if inside.Add(1) != 1 {
			t.Error("two collections at the same time")
		}
		defer inside.Add(-1)
		round++
		s.SetNumber(procstats.TreeCPU, round)
		for pid := range 20 {
			row := s.AddProcess(procstats.ProcessID{PID: pid + 1, Start: 1})
			row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, round))
			row.Readings.Put(procstats.NumberReading(procstats.ProcessRSS, round))
		}
	}, nil)
	var readers sync.WaitGroup
	start := make(chan struct{})
	for range 16 {
		readers.Go(func() {
			<-start
			for range 200 {
				s := c.Get(time.Nanosecond)
				want, _ := s.Task.Number(procstats.TreeCPU)
				for i := range s.Processes {
					if got, _ := s.Processes[i].Readings.Number(procstats.ProcessRSS); got != want {
						t.Errorf("row of collection %v in a sample of collection %v", got, want)
						return
					}
				}
				if c.Latest() == nil {
					t.Error("nothing is published after Get")
				}
			}
		})
	}
	close(start)
	readers.Wait()
}

// TestCacheGarbage: a reader that nobody waits for leaves no more behind than what it publishes. There are hundreds at
// each tick.
func TestCacheGarbage(t *testing.T) {
	sample := &procstats.Sample{Stamp: kernel.Now()}
	c := NewCache(func(*procstats.Sample) *procstats.Sample { return sample }, nil)
	if n := testing.AllocsPerRun(100, func() { c.Get(0) }); n > 1 {
		t.Errorf("%v allocations for a collection, want 1", n)
	}
}

func TestUntilTick(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name                 string
		now, interval, phase time.Duration
		want                 time.Duration
	}{
		{"between two", 10*s + 300*ms, s, 0, 700 * ms},
		{"on a tick", 10 * s, s, 0, s},
		{"fired early", 10*s - 1*ms, s, 0, s + 1*ms},
		{"fired late", 10*s + 1*ms, s, 0, 999 * ms},
		{"before its phase", 10 * s, s, 250 * ms, 250 * ms},
		{"after its phase", 10*s + 300*ms, s, 250 * ms, 950 * ms},
		{"in its phase, early", 10*s + 249*ms, s, 250 * ms, s + 1*ms},
		{"before the first interval of the clock", 10 * ms, s, 750 * ms, 740 * ms},
	} {
		testkit.Equal(t, UntilTick(c.now, c.interval, c.phase), c.want, "%s", c.name)
	}
}
