// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/procstats"
)

const (
	defaultStatsInterval = time.Second
	// A stream is silent after this many intervals, and never before stallFloor: a host under load is late.
	stallIntervals = 5
	stallFloor     = 10 * time.Second
)

// StatsOpener opens the stats stream of one task. A [Handle] that has stats implements it.
type StatsOpener interface {
	// OpenStats requests one sample per interval until ctx is done. It returns [ErrStatsNotImplemented] if the driver
	// has no stats and [ErrPluginRestarting] while its plugin is down; the hook retries after every other error unless
	// it is unrecoverable (see [Recoverable]). The same holds for the stream's first Recv: over a wire, an error of
	// the opening shows only there.
	OpenStats(ctx context.Context, interval time.Duration) (StatsStream, error)
}

// StatsStream is an open stats stream. It is established with its first sample.
type StatsStream interface {
	// Recv blocks until the next sample and returns it, never nil without an error. It returns io.EOF at the stream's
	// end and returns soon after the ctx of the opening is done. It is called from one goroutine.
	Recv() (*procstats.Sample, error)
}

// PacedStream is a StatsStream that says when to expect the next sample. It is for drivers that sample less often
// than asked if it would cost too much.
type PacedStream interface {
	StatsStream
	// Interval is the time between two samples now; 0 means as asked for. It may be called at any time.
	Interval() time.Duration
}

// StatsUpdater consumes the samples of one task.
type StatsUpdater interface {
	// UpdateStats is called for one sample after the other. It may retain the sample and must not change it. A call
	// that blocks holds up later samples of the task and nothing else; a panic is logged and ends the stream, which is
	// opened again.
	UpdateStats(sample *procstats.Sample)
}

// StatsConfig configures a [StatsHook].
type StatsConfig struct {
	// Interval is the time between samples; 0 means 1 s.
	Interval time.Duration
	// StallAfter is the time without a sample after which a stream is ended and opened again, and the time after
	// which a call of the updater counts as blocked; 0 means five intervals, at least 10 s. A [PacedStream] has five
	// of its own.
	StallAfter time.Duration
	// Publish says whether stats are collected at all; see SetPublish.
	Publish bool
	// Updater consumes the samples.
	Updater StatsUpdater
	// Logger should name the task and its allocation in every line, by [hclog.Logger.With]; nil discards.
	Logger hclog.Logger
}

// StatsHook collects the samples of one task while it runs. Its methods may be called from any goroutine.
//
// Poststart opens the stream in a context of its own; Exited and Shutdown end it. A stream that closes, breaks or
// falls silent is opened again after one interval. A failed opening is retried after 1, 2, 4, 5, 5 … seconds, each up
// to a quarter shorter. Collection ends quietly if the driver has no stats or the error is unrecoverable. A
// restarting plugin and a closed stream are logged at debug level, every other kind of error once at error level.
//
// While publishing is off nothing is opened.
//
// No method waits longer than its context for the driver or the updater, whether they are slow, block or panic. The
// hook has at most one goroutine, which calls both. If a call never returns, neither does that goroutine: the task is
// then without samples, and the goroutine ends when the call does.
type StatsHook struct {
	config StatsConfig
	log    hclog.Logger

	mu      sync.Mutex // guards following; never held while the driver or the updater is called
	publish bool
	closed  bool
	running bool
	opener  StatsOpener // nil unless a task with stats is running
	// current is the collection whose samples are delivered, nil if nothing is to be collected. active is the one
	// whose goroutine has not ended: current, or an earlier one that holds current up.
	current, active *collection
	err             error // why current has no samples
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
	h := &StatsHook{config: config, publish: config.Publish}
	h.log = loggerOr(config.Logger).With("hook", h.Name())
	return h
}

// Name implements [Hook].
func (h *StatsHook) Name() string { return "stats" }

// Poststart opens the stream unless publishing is off. It returns at once and never an error. The stream of an earlier
// Poststart is ended.
func (h *StatsHook) Poststart(_ context.Context, req *PoststartRequest) error {
	h.mu.Lock()
	again, publish := h.current != nil, h.publish
	h.running, h.opener = true, req.Stats
	h.replaceLocked()
	h.mu.Unlock()
	if again {
		h.log.Debug("end the stats stream of an earlier poststart")
	}
	if !publish {
		h.log.Trace("collects no stats: publishing is off")
	}
	return nil
}

// Exited ends the stream. A nil error acknowledges the end: no call of the driver or the updater is in progress and
// none follows. An error says that such a call had not returned when ctx was done; no further call follows it.
func (h *StatsHook) Exited(ctx context.Context, _ *ExitedRequest) error { return h.end(ctx, false) }

// Shutdown does what Exited does and closes the hook: nothing is opened after it.
func (h *StatsHook) Shutdown(ctx context.Context) error { return h.end(ctx, true) }

// SetPublish turns publishing on or off: on opens the stream of a running task and returns at once, off ends it as
// Exited does.
func (h *StatsHook) SetPublish(ctx context.Context, on bool) error {
	h.mu.Lock()
	if on != h.publish {
		h.publish = on
		h.replaceLocked()
	}
	active := h.active
	h.mu.Unlock()
	if on {
		return nil
	}
	return active.wait(ctx)
}

// Err returns why there are no fresh samples, nil while a stream is established: [ErrNotPublished], [ErrNotRunning],
// [ErrStatsNotImplemented], [ErrStatsOpening], [ErrUpdaterBlocked], [ErrStatsAborted], or the last error of the stream.
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
	h.closed = h.closed || closed
	h.running, h.opener = false, nil
	h.replaceLocked()
	active := h.active
	h.mu.Unlock()
	return active.wait(ctx)
}

// replaceLocked ends the current collection and makes the next one, if there is something to collect.
func (h *StatsHook) replaceLocked() {
	if h.current != nil {
		h.current.cancel()
		h.current = nil
	}
	if !h.publish || h.closed || h.opener == nil {
		return
	}
	h.current, h.err = newCollection(h, h.opener), ErrStatsOpening
	if h.active == nil {
		h.startLocked()
	}
}

// startLocked starts the goroutine of the current collection. Only one runs at a time: a task has one stream, and
// whatever blocks holds one goroutine.
func (h *StatsHook) startLocked() {
	c := h.current
	h.active = c
	go func() {
		defer h.ended(c) // deferred: an updater may end its goroutine
		c.run()
	}()
}

// ended is called when the goroutine of a collection is about to end. The collection that replaced it meanwhile starts.
func (h *StatsHook) ended(c *collection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(c.done)
	h.active = nil
	switch {
	case h.current == nil:
	case h.current != c:
		h.startLocked()
	case !isFinal(h.err):
		h.err = ErrStatsAborted
	}
}
