// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// errorsForgotten is how long a stream has to be well before its errors are told again.
const errorsForgotten = 10 * time.Minute

// collection is the collecting of samples from one Poststart, or one SetPublish(true), to its end.
type collection struct {
	hook   *StatsHook
	opener StatsOpener
	cancel context.CancelFunc

	delivering sync.Mutex // guards following, and is held while a sample is passed on
	ended      bool
}

// end lets no sample through any more and ends the stream. It waits for the updater, but not for the driver. The nil
// collection is ended already.
func (c *collection) end() {
	if c == nil {
		return
	}
	c.cancel()
	c.delivering.Lock()
	defer c.delivering.Unlock()
	c.ended = true
}

// run keeps the stream open until ctx is done or there is no sense in it, and closes done. The collection before it
// ends first, so that a task has one stream at a time.
func (c *collection) run(ctx context.Context, before <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	if before != nil {
		<-before
	}
	told := make(map[errorKind]bool)
	for retry := (backoff{}); ctx.Err() == nil; {
		opened := time.Now()
		established, err := c.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		c.hook.setErr(c, err)
		if isFinal(err) {
			c.hook.log.Debug("stats collection ended", "error", err)
			return
		}
		if established && time.Since(opened) >= errorsForgotten {
			clear(told)
		}
		c.tell(told, established, err)

		wait := max(c.hook.config.Interval, reopenFloor)
		switch {
		case established:
			retry.reset()
		case !errors.Is(err, io.EOF):
			wait = retry.next()
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// stream passes samples on until the stream ends, which it always says with an error. It is established where
// there was at least one.
func (c *collection) stream(ctx context.Context) (established bool, err error) {
	config := &c.hook.config
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(config.StallAfter, func() { cancel(ErrStatsStalled) })
	defer watchdog.Stop()

	stream, err := c.opener.OpenStats(ctx, config.Interval)
	if err != nil {
		return false, fmt.Errorf("open stats stream: %w", causeOr(ctx, err))
	}
	for {
		sample, err := stream.Recv()
		if err != nil {
			return established, fmt.Errorf("stats stream ended: %w", causeOr(ctx, err))
		}
		// The updater's time is not the stream's silence.
		watchdog.Stop()
		if !established {
			established = true
			c.hook.setErr(c, nil)
		}
		c.deliver(sample)
		watchdog.Reset(config.StallAfter)
	}
}

func (c *collection) deliver(sample *procstats.Sample) {
	c.delivering.Lock()
	defer c.delivering.Unlock()
	if !c.ended {
		c.hook.config.Updater.UpdateStats(sample)
	}
}

// errorKind is what errors have to share to be told only once. Their texts differ from try to try.
type errorKind struct {
	established bool
	stalled     bool
	root        string // the type of the innermost error
}

// tell logs why the stream is opened again: errors once per kind, the ordinary at debug level.
func (c *collection) tell(told map[errorKind]bool, established bool, err error) {
	log := c.hook.log.Debug
	if !isRestarting(err) && !errors.Is(err, io.EOF) {
		kind := errorKind{established: established, stalled: errors.Is(err, ErrStatsStalled), root: rootType(err)}
		if !told[kind] {
			told[kind] = true
			log = c.hook.log.Error
		}
	}
	log("stats stream is opened again", "error", err)
}

// isFinal reports whether opening the stream again is of no use.
func isFinal(err error) bool {
	return errors.Is(err, ErrStatsNotImplemented) || !recoverable(err, true)
}

// causeOr returns why ctx was cancelled, or err where it was not: what a cancelled call returns says less.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func rootType(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}
