// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/procstats"
)

// errorsForgotten is how long a stream has to stay established before its errors are logged again.
const errorsForgotten = 10 * time.Minute

// collection collects samples from one Poststart, or one SetPublish(true), to its end. Its goroutine calls the driver
// and the updater.
type collection struct {
	hook   *StatsHook
	opener StatsOpener
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	// The hook's mu guards following.
	calling string // the driver's or the updater's method in progress, empty between two
	since   time.Time
	logged  map[string]bool // by kindOf
}

func newCollection(h *StatsHook, opener StatsOpener) *collection {
	c := &collection{hook: h, opener: opener, done: make(chan struct{}), logged: make(map[string]bool)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// wait waits for the goroutine's end, not longer than ctx. A nil collection has ended.
func (c *collection) wait(ctx context.Context) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	c.hook.mu.Lock()
	calling, since := c.calling, c.since
	c.hook.mu.Unlock()
	select {
	case <-c.done: // at the same moment
		return nil
	default:
	}
	err := fmt.Errorf("end stats stream: %w", context.Cause(ctx))
	if calling != "" {
		err = fmt.Errorf("%w; %s has not returned for %v", err, calling, time.Since(since).Round(time.Millisecond))
	}
	return err
}

// run opens the stream again and again until the collection is ended or there is no point in it.
func (c *collection) run() {
	defer c.cancel()
	for retry := (reopening{interval: c.hook.config.Interval}); c.ctx.Err() == nil; {
		opened := time.Now()
		established, err := c.stream()
		if c.ctx.Err() != nil {
			return
		}
		c.setErr(err)
		if isFinal(err) {
			c.hook.log.Debug("stop collecting stats", "error", err)
			return
		}
		if established && time.Since(opened) >= errorsForgotten {
			c.forgetErrors()
		}
		wait := retry.next(established, err)
		c.report(established, err, wait)
		if !sleep(c.ctx, wait) {
			return
		}
	}
}

// stream delivers samples until the stream ends, which it always reports with an error. It is established if there was
// at least one.
func (c *collection) stream() (established bool, err error) {
	config := &c.hook.config
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	watchdog := newWatchdog(config.StallAfter, func() { c.stalled(cancel) })
	defer watchdog.Stop()

	stream, err := c.openStream(ctx)
	if err != nil {
		return false, fmt.Errorf("open stats stream: %w", causeOr(ctx, err))
	}
	for ctx.Err() == nil {
		var sample *procstats.Sample
		if sample, err = c.receive(stream); err != nil {
			break
		}
		established = true
		watchdog.reset(config.StallAfter) // the updater's time is not the stream's silence
		if err := c.deliver(sample); err != nil {
			return established, fmt.Errorf("update stats: %w", err)
		}
		watchdog.reset(c.patience(stream))
	}
	return established, fmt.Errorf("receive stats: %w", causeOr(ctx, err))
}

// watchdog calls a function when nothing has happened for a while. The last tenth is timed by itself: after a time in
// which this process was stopped, what waits for it comes first.
type watchdog struct {
	*time.Timer
	patience atomic.Int64
	warned   atomic.Bool
}

func newWatchdog(patience time.Duration, bark func()) *watchdog {
	w := &watchdog{}
	w.Timer = time.AfterFunc(math.MaxInt64, func() {
		if w.warned.Swap(true) {
			bark()
			return
		}
		w.Reset(time.Duration(w.patience.Load()) / 10)
	})
	w.reset(patience)
	return w
}

func (w *watchdog) reset(patience time.Duration) {
	w.patience.Store(int64(patience))
	w.warned.Store(false)
	w.Reset(patience - patience/10)
}

// patience is how long a stream may be silent.
func (c *collection) patience(stream StatsStream) time.Duration {
	if paced, ok := stream.(PacedStream); ok {
		return max(c.hook.config.StallAfter, stallIntervals*paced.Interval())
	}
	return c.hook.config.StallAfter
}

func (c *collection) openStream(ctx context.Context) (stream StatsStream, err error) {
	c.setCalling("OpenStats")
	defer c.returned(&err)
	return c.opener.OpenStats(ctx, c.hook.config.Interval) //nolint:wrapcheck // by the caller
}

func (c *collection) receive(stream StatsStream) (sample *procstats.Sample, err error) {
	c.setCalling("Recv")
	defer c.returned(&err)
	return stream.Recv() //nolint:wrapcheck // by the caller
}

// deliver passes a sample on unless the collection has been ended: a late sample is dropped.
func (c *collection) deliver(sample *procstats.Sample) (err error) {
	if !c.setErr(nil) {
		return context.Cause(c.ctx)
	}
	c.setCalling(updating)
	defer c.returned(&err)
	c.hook.config.Updater.UpdateStats(sample)
	return nil
}

// stalled is called when nothing has happened for StallAfter. The updater is waited for; the stream is not.
func (c *collection) stalled(cancel context.CancelCauseFunc) {
	c.hook.mu.Lock()
	delivering := c.calling == updating
	c.hook.mu.Unlock()
	if !delivering {
		cancel(ErrStatsStalled)
		return
	}
	if c.setErr(ErrUpdaterBlocked) {
		c.report(true, ErrUpdaterBlocked, 0)
	}
}

// updating is the updater's method.
const updating = "UpdateStats"

// returned is deferred behind a call of the driver or the updater. Its panic is returned as an error.
func (c *collection) returned(err *error) {
	c.setCalling("")
	if value := recover(); value != nil {
		*err = &panicError{value, debug.Stack()}
	}
}

func (c *collection) setCalling(name string) {
	c.hook.mu.Lock()
	defer c.hook.mu.Unlock()
	c.calling, c.since = name, time.Now()
}

// setErr sets why there are no samples, nil if there are. It reports false if the collection is not the current one:
// the hook's state is then none of its business.
func (c *collection) setErr(err error) bool {
	c.hook.mu.Lock()
	defer c.hook.mu.Unlock()
	if c.hook.current != c {
		return false
	}
	c.hook.err = err
	return true
}

// panicError is a panic of the driver or the updater.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// kindOf returns what errors must share to be logged only once. Their texts differ from try to try.
func kindOf(established bool, err error) string {
	root := err
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		root = inner
	}
	kind := fmt.Sprintf("%T", root)
	for _, sentinel := range []error{ErrStatsStalled, ErrUpdaterBlocked} {
		if errors.Is(err, sentinel) {
			kind = sentinel.Error()
		}
	}
	return fmt.Sprint(established, kind)
}

// report logs why there are no samples: errors once per kind, the ordinary at debug level. retry is the time until the
// stream is opened again, 0 if it stays open.
func (c *collection) report(established bool, err error, retry time.Duration) {
	args := []any{"error", err}
	if retry > 0 {
		args = append(args, "retry_in", retry.Round(time.Millisecond))
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		args = append(args, "stack", string(p.stack))
	}
	level := hclog.Error
	if isOrdinary(err) || !c.first(kindOf(established, err)) {
		level = hclog.Debug
	}
	c.hook.log.Log(level, "collect stats", args...)
}

// isOrdinary reports whether a stream ends that way without any fault: its plugin restarts, it was closed, or its task
// has ended and Exited follows.
func isOrdinary(err error) bool {
	return isRestarting(err) || errors.Is(err, io.EOF) || errors.Is(err, ErrNotRunning)
}

// first reports whether no error of that kind was logged yet.
func (c *collection) first(kind string) bool {
	c.hook.mu.Lock()
	defer c.hook.mu.Unlock()
	before := c.logged[kind]
	c.logged[kind] = true
	return !before
}

func (c *collection) forgetErrors() {
	c.hook.mu.Lock()
	defer c.hook.mu.Unlock()
	clear(c.logged)
}

// causeOr returns why ctx was cancelled, or err if it was not: what a cancelled call returns says less.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
