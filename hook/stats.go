// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tachograph/tacho/procstats"
)

const (
	defaultStatsInterval = time.Second
	// A stream is silent after this many intervals, and never before stallFloor: a host under load is late.
	stallIntervals = 5
	stallFloor     = 10 * time.Second
	// A driver that closes every stream at once must not be asked in a loop, however short the interval.
	reopenFloor = 100 * time.Millisecond
)

// StatsOpener opens the stats stream of one task. [Handle]s that have stats are one.
type StatsOpener interface {
	// OpenStats asks for one sample per interval until ctx is done. It returns [ErrStatsNotImplemented] where the
	// driver has none and [ErrPluginRestarting] while it cannot be asked; other errors are tried again unless they say
	// that they are unrecoverable (see [Recoverable]). The same holds for the stream's first Recv: over a wire,
	// an error of the opening shows only there.
	OpenStats(ctx context.Context, interval time.Duration) (StatsStream, error)
}

// StatsStream is an open stats stream. It is established with its first sample.
type StatsStream interface {
	// Recv blocks until the next sample and returns it, never nil without an error. It returns io.EOF at the stream's
	// end and returns soon after the ctx of the opening is done. It is called from one goroutine.
	Recv() (*procstats.Sample, error)
}

// StatsUpdater takes the samples of one task.
type StatsUpdater interface {
	// UpdateStats is called for one sample after the other. The sample may be kept and must not be changed. The method
	// must not call back into the hook, except for Err.
	UpdateStats(sample *procstats.Sample)
}

// StatsConfig is what a stats hook needs to know.
type StatsConfig struct {
	// Interval is the time between samples; 0 means 1 s.
	Interval time.Duration
	// StallAfter is the time without a sample after which a stream is given up and opened again; 0 means five
	// intervals, at least 10 s.
	StallAfter time.Duration
	// Publish says whether there are stats at all; see SetPublish.
	Publish bool
	// Updater takes the samples.
	Updater StatsUpdater
	// Logger takes errors, once per kind; nil is none.
	Logger Logger
}

// StatsHook collects the samples of one task while it runs. Its methods may be called from any goroutine.
//
// The stream is opened in a context of its own at Poststart and ended by Exited and Shutdown. A stream that closes,
// breaks or falls silent is opened again after one interval. An opening that fails is tried again after 1, 2, 4, 5, 5 …
// seconds, each up to a quarter shorter. It ends quietly where the driver has no stats or the error is unrecoverable.
// A restarting plugin and a closed stream are told at debug level, every other kind of error once at error level.
//
// While publishing is off nothing is opened.
type StatsHook struct {
	config StatsConfig
	log    Logger

	mu      sync.Mutex // guards following
	publish bool
	closed  bool
	running bool
	opener  StatsOpener     // nil while no task with stats runs
	current *collection     // nil while nothing is to be collected
	done    <-chan struct{} // of the newest collection, current or ending; nil before the first
	err     error           // why current has no samples
}

var (
	_ Poststart = (*StatsHook)(nil)
	_ Exited    = (*StatsHook)(nil)
	_ Shutdown  = (*StatsHook)(nil)
)

// NewStatsHook returns a hook that has opened nothing.
func NewStatsHook(config StatsConfig) *StatsHook {
	config.Interval = cmp.Or(max(config.Interval, 0), defaultStatsInterval)
	config.StallAfter = cmp.Or(max(config.StallAfter, 0), max(stallIntervals*config.Interval, stallFloor))
	return &StatsHook{config: config, log: loggerOr(config.Logger), publish: config.Publish}
}

// Name returns the hook's name in the log.
func (h *StatsHook) Name() string { return "stats" }

// Poststart opens the stream, unless publishing is off. It returns at once and never an error. A stream of an earlier
// Poststart is ended.
func (h *StatsHook) Poststart(_ context.Context, req *PoststartRequest) error {
	h.mu.Lock()
	old := h.takeLocked()
	h.running, h.opener = true, req.Stats
	h.beginLocked()
	h.mu.Unlock()
	old.end()
	return nil
}

// Exited ends the stream and waits until its goroutine has ended. After the call no sample is passed on, even where
// the driver hangs and the error is that of ctx.
func (h *StatsHook) Exited(ctx context.Context, _ *ExitedRequest) error { return h.end(ctx, false) }

// Shutdown does what Exited does and leaves the hook closed: nothing is opened any more.
func (h *StatsHook) Shutdown(ctx context.Context) error { return h.end(ctx, true) }

// SetPublish turns collecting on or off: on opens the stream of a running task, off ends it. It does not wait for the
// stream's goroutine, but after SetPublish(false) no sample is passed on.
func (h *StatsHook) SetPublish(on bool) {
	h.mu.Lock()
	var old *collection
	switch {
	case on && !h.publish:
		h.publish = true
		h.beginLocked()
	case !on:
		h.publish = false
		old = h.takeLocked()
	}
	h.mu.Unlock()
	old.end()
}

// Err returns why there are no fresh samples, nil while a stream is established: [ErrNotPublished], [ErrNotRunning],
// [ErrStatsNotImplemented], [ErrStatsOpening], or the last error of the stream.
func (h *StatsHook) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.publish:
		return ErrNotPublished
	case !h.running || h.closed:
		return ErrNotRunning
	case h.opener == nil:
		return ErrStatsNotImplemented
	}
	return h.err
}

func (h *StatsHook) end(ctx context.Context, closed bool) error {
	h.mu.Lock()
	old, done := h.takeLocked(), h.done
	h.closed = h.closed || closed
	h.running, h.opener = false, nil
	h.mu.Unlock()
	old.end()
	return await(ctx, done)
}

// beginLocked starts a collection where there is something to collect.
func (h *StatsHook) beginLocked() {
	if !h.publish || h.closed || h.opener == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.current = &collection{hook: h, opener: h.opener, cancel: cancel}
	h.err = ErrStatsOpening
	go h.current.run(ctx, h.done, done)
	h.done = done
}

// takeLocked takes the current collection out, for the caller to end it without the lock: the updater that it may
// have to wait for may be asking for Err.
func (h *StatsHook) takeLocked() *collection {
	c := h.current
	h.current = nil
	return c
}

// await waits for the goroutines of a collection and of all before it; done is nil where there were none.
func await(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stats stream does not end: %w", context.Cause(ctx))
	}
}

// setErr keeps why the collection c has no samples, nil where it has.
func (h *StatsHook) setErr(c *collection, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == c {
		h.err = err
	}
}
