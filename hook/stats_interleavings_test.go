// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/procstats"
)

// TestStatsInterleavings calls the hook's methods in random orders and at random times, from several goroutines, while
// driver and updater misbehave at random. A failure names its seed.
func TestStatsInterleavings(t *testing.T) {
	const interleavings = 1000
	acknowledged, overdue, delivered := 0, 0, 0
	for seed := range uint64(interleavings) {
		synctest.Test(t, func(t *testing.T) {
			s := newChaos(t, seed)
			s.run()
			acknowledged, overdue, delivered = acknowledged+s.acknowledged, overdue+s.overdue, delivered+s.delivered
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d ends acknowledged, %d overdue, %d samples", acknowledged, overdue, delivered)
	if acknowledged < interleavings || overdue < interleavings || delivered < interleavings {
		t.Error("the interleavings exercise too little")
	}
}

// chaos is one interleaving.
type chaos struct {
	t       *testing.T
	h       *hook.StatsHook
	release chan struct{} // closed at the end: calls that block for ever return

	mu           sync.Mutex // guards following
	random       *rand.Rand
	misbehaves   int  // of ten calls of the driver and the updater
	begun        int  // calls so far that may start a collection
	beginning    int  // those of them that have not returned
	sealed       bool // an end was acknowledged and nothing has begun since
	delivering   int
	delivered    int
	acknowledged int
	overdue      int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{t: t, release: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 0))}
	c.misbehaves = c.pick(10)
	c.h = hook.NewStatsHook(hook.StatsConfig{
		Publish: c.pick(2) == 0, Interval: time.Duration(1+c.pick(2000)) * time.Millisecond, Updater: c,
	})
	return c
}

func (c *chaos) pick(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *chaos) run() {
	var callers sync.WaitGroup
	for range 1 + c.pick(3) {
		callers.Go(func() {
			for range 5 + c.pick(15) {
				c.step()
				<-time.After(time.Duration(c.pick(4000)) * time.Millisecond)
			}
		})
	}
	callers.Wait()
	close(c.release)
	if err := c.h.Shutdown(c.t.Context()); err != nil {
		c.t.Errorf("Shutdown after everything returned: %v", err)
	}
}

// step calls one method with a context of random length and checks that it returns within it.
func (c *chaos) step() {
	limit := time.Duration(c.pick(1500)) * time.Millisecond
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	began := time.Now()
	name := ""
	switch n := c.pick(20); {
	case n < 8:
		name = "Poststart"
		c.begin(func() { _ = c.h.Poststart(ctx, &hook.PoststartRequest{Stats: c}) })
	case n < 12:
		name = "Exited"
		c.end(func() error { return c.h.Exited(ctx, nil) })
	case n < 15:
		name = "publishing on"
		c.begin(func() { _ = c.h.SetPublish(ctx, true) })
	case n < 18:
		name = "publishing off"
		c.end(func() error { return c.h.SetPublish(ctx, false) })
	case n < 19:
		name, limit = "Err", 0
		_ = c.h.Err()
	default:
		if c.pick(10) == 0 {
			name = "Shutdown"
			c.end(func() error { return c.h.Shutdown(ctx) })
		}
	}
	if took := time.Since(began); took > limit {
		c.t.Errorf("%s took %v, its context %v", name, took, limit)
	}
}

// begin calls a method after which samples may come.
func (c *chaos) begin(call func()) {
	c.mu.Lock()
	c.begun++
	c.beginning++
	c.sealed = false
	c.mu.Unlock()
	call()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginning--
}

// end calls a method that ends the stream. If it acknowledges that, and nothing began beside it, no sample may come.
func (c *chaos) end(call func() error) {
	c.mu.Lock()
	begun, alone := c.begun, c.beginning == 0
	c.mu.Unlock()
	err := call()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.overdue++
		if !errors.Is(err, context.DeadlineExceeded) {
			c.t.Errorf("an end failed with %v", err)
		}
		return
	}
	c.acknowledged++
	if !alone || c.begun != begun {
		return
	}
	c.sealed = true
	if c.delivering > 0 {
		c.t.Error("an end was acknowledged while a sample was delivered")
	}
}

// UpdateStats implements hook.StatsUpdater.
func (c *chaos) UpdateStats(*procstats.Sample) {
	c.mu.Lock()
	if c.sealed {
		c.t.Error("a sample after an acknowledged end")
	}
	c.delivering++
	c.delivered++
	if c.delivering > 1 {
		c.t.Error("two samples at a time")
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.delivering--
	}()
	_ = c.misbehave()
}

// OpenStats implements hook.StatsOpener.
func (c *chaos) OpenStats(ctx context.Context, interval time.Duration) (hook.StatsStream, error) {
	return &chaosStream{c, ctx, interval}, c.misbehave()
}

type chaosStream struct {
	*chaos
	ctx      context.Context
	interval time.Duration
}

func (s *chaosStream) Recv() (*procstats.Sample, error) {
	if err := s.misbehave(); err != nil {
		return nil, err
	}
	if !wait(s.ctx, s.interval) {
		return nil, s.ctx.Err()
	}
	return &procstats.Sample{}, nil
}

// misbehave blocks, panics or fails at random, whatever the context of the call.
func (c *chaos) misbehave() error {
	if c.pick(10) >= c.misbehaves {
		return nil
	}
	switch c.pick(14) {
	case 0:
		<-c.release
	case 1, 2, 3:
		select {
		case <-time.After(time.Duration(c.pick(5000)) * time.Millisecond):
		case <-c.release:
		}
	case 4:
		panic("out of cheese")
	case 5:
		_ = c.h.Err()
	case 6:
		return io.EOF
	case 7:
		return hook.ErrPluginRestarting
	case 8:
		return fmt.Errorf("driver: %w", errBroken)
	case 9:
		if c.pick(10) == 0 {
			return hook.ErrStatsNotImplemented
		}
	case 10:
		runtime.Goexit()
	case 11:
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		c.end(func() error { return c.h.SetPublish(ctx, false) }) // it would wait for itself
	}
	return nil
}
