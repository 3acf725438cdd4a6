// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Cache shares collections among readers: however many ask, at most one collection is made per time to live,
// and readers that ask while one is under way wait for it and share it. It starts no goroutine: the reader
// that finds nothing young enough collects. All methods may be called concurrently.
type Cache struct {
	produce func(latest *procstats.Sample) *procstats.Sample
	now     func() procstats.Stamp

	latest      atomic.Pointer[collection]
	collections atomic.Int64
	// lock is held by the reader that collects. It is a channel, on which readers in a synctest bubble can wait.
	lock chan struct{}
}

// collection is a published sample. Its age is counted from the beginning of the collection and not from its end, so
// that a slow one does not look fresher than its numbers are.
type collection struct {
	began  time.Duration
	sample *procstats.Sample
}

// NewCache returns an empty cache over produce, which is never called twice at the same time. It gets the latest
// sample, nil for none, with which it may share readings: what it returns is published. now is the clock by which
// samples age; nil means Now.
func NewCache(produce func(latest *procstats.Sample) *procstats.Sample, now func() procstats.Stamp) *Cache {
	if now == nil {
		now = kernel.Now
	}
	return &Cache{produce: produce, now: now, lock: make(chan struct{}, 1)}
}

// Get returns a sample whose collection began less than maxAge ago or was under way when Get was called, and
// else it collects. With maxAge 0 only a collection under way is shared. The sample is published:
// it is never changed again, and the caller must not.
func (c *Cache) Get(maxAge time.Duration) *procstats.Sample {
	before := c.latest.Load()
	if c.young(before, maxAge) {
		return before.sample
	}
	return c.share(before, 0)
}

// GetNew returns a sample whose collection began after the call: not one under way, which may have read some of
// what it reads already.
func (c *Cache) GetNew() *procstats.Sample {
	return c.share(c.latest.Load(), c.now().Mono)
}

// share waits for the collection under way, and returns its sample if it is newer than before and began at a time or
// later. Otherwise it collects.
func (c *Cache) share(before *collection, asked time.Duration) *procstats.Sample {
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	if latest := c.latest.Load(); latest != before && latest.began >= asked {
		return latest.sample
	}
	began := c.now()
	c.collections.Add(1)
	sample := c.produce(c.Latest())
	if sample.Zero() {
		sample.Stamp = began
	}
	c.latest.Store(&collection{began.Mono, sample})
	return sample
}

// young reports whether a sample is no older than maxAge. A clock that went back is another clock: whatever
// was read by the old one is not young.
func (c *Cache) young(latest *collection, maxAge time.Duration) bool {
	if latest == nil || maxAge <= 0 {
		return false
	}
	age := c.now().Mono - latest.began
	return age >= 0 && age < maxAge
}

// Latest returns the newest sample there is, whatever its age, and nil where none was collected. It never
// collects and never waits.
func (c *Cache) Latest() *procstats.Sample {
	if latest := c.latest.Load(); latest != nil {
		return latest.sample
	}
	return nil
}

// Collections counts the collections begun so far.
func (c *Cache) Collections() int64 { return c.collections.Load() }

// Sibling returns an empty sample with memory for as many readings as s has, in one piece for all rows: a
// cache publishes a fresh sample each time, and growing every row anew would cost more than reading it. s may be nil.
func Sibling(s *procstats.Sample) *procstats.Sample {
	if s == nil {
		return &procstats.Sample{}
	}
	perRow := 0
	for i := range s.Processes {
		perRow = max(perRow, len(s.Processes[i].Readings))
	}
	n := len(s.Processes)
	next := &procstats.Sample{Task: make(procstats.Readings, 0, len(s.Task)), Processes: make([]procstats.ProcessRow, n)}
	readings := make(procstats.Readings, n*perRow)
	for i := range next.Processes {
		next.Processes[i].Readings = readings[i*perRow : i*perRow : (i+1)*perRow]
	}
	next.Processes = next.Processes[:0]
	return next
}

// UntilTick is the time to the next multiple of interval on CLOCK_MONOTONIC, or rather to phase after it; a tick that
// is less than a tenth of an interval away is left to the one before it, so that a timer which fired early does not
// fire twice.
func UntilTick(now, interval, phase time.Duration) time.Duration {
	left := interval - (now+interval-phase)%interval
	if left < interval/10 {
		left += interval
	}
	return left
}
