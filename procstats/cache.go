// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"sync"
	"sync/atomic"
	"time"
)

// Cache shares collections among readers: however many ask, at most one collection is made per time to live,
// and readers that ask while one is being made wait for it and share it. It starts no goroutine: the reader
// that finds nothing young enough collects. All methods may be called concurrently.
type Cache struct {
	collect func(*Sample)
	now     func() Stamp

	collecting  sync.Mutex
	latest      atomic.Pointer[cached]
	collections atomic.Int64
}

// cached is a published sample and when its collection began: by that, and not by its end, its age is
// counted, so that a slow collection does not look fresher than its numbers are.
type cached struct {
	sample *Sample
	began  time.Duration
}

// NewCache returns an empty cache over collect, which is never called twice at the same time. now is the
// clock by which samples age; nil means Now.
func NewCache(collect func(*Sample), now func() Stamp) *Cache {
	if now == nil {
		now = Now
	}
	return &Cache{collect: collect, now: now}
}

// Get returns a sample whose collection began at most maxAge ago, or was under way when Get was called, and
// collects where there is none. With maxAge 0 only a collection under way is shared. The sample is published:
// nobody changes it again, and the caller must not.
func (c *Cache) Get(maxAge time.Duration) *Sample {
	asked := c.latest.Load()
	if c.young(asked, maxAge) {
		return asked.sample
	}
	c.collecting.Lock()
	defer c.collecting.Unlock()
	if latest := c.latest.Load(); latest != asked {
		// Somebody else's collection ended while this reader waited for the lock.
		return latest.sample
	}
	began := c.now()
	sample := &Sample{}
	c.collect(sample)
	if sample.Zero() {
		sample.Stamp = began
	}
	c.latest.Store(&cached{sample: sample, began: began.Mono})
	c.collections.Add(1)
	return sample
}

// young reports whether a sample is no older than maxAge. A clock that went back is another clock: whatever
// was read by the old one is not young.
func (c *Cache) young(e *cached, maxAge time.Duration) bool {
	if e == nil || maxAge <= 0 {
		return false
	}
	age := c.now().Mono - e.began
	return age >= 0 && age < maxAge
}

// Latest returns the newest sample there is, whatever its age, and nil where none was collected. It never
// collects and never waits.
func (c *Cache) Latest() *Sample {
	if e := c.latest.Load(); e != nil {
		return e.sample
	}
	return nil
}

// Collections counts the collections made so far.
func (c *Cache) Collections() int64 { return c.collections.Load() }
