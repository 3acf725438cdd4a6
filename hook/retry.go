// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"
)

const (
	firstRetry = time.Second
	longRetry  = 5 * time.Second
)

// backoff is a sequence of waits: 1, 2, 4, 5, 5 … seconds, each shortened at random by up to a quarter so that
// tasks that lost the same plugin do not retry at the same moment. The zero value is its beginning.
type backoff struct {
	last time.Duration
}

// next returns the next wait, never more than longRetry.
func (b *backoff) next() time.Duration {
	b.last = min(max(firstRetry, 2*b.last), longRetry)
	return b.last - rand.N(b.last/4+1)
}

// reopenFloor keeps a driver that closes every stream at once from being called in a loop, however short the interval.
const reopenFloor = 100 * time.Millisecond

// reopening is the retry policy of a stats stream, together with isFinal: a stream that ended is opened again after one
// interval, a failed opening is retried with backoff.
type reopening struct {
	interval time.Duration
	backoff  backoff
}

// next returns the wait before the stream is opened again, after it ended with err. It is established if it had a
// sample.
func (r *reopening) next(established bool, err error) time.Duration {
	if established {
		r.backoff = backoff{}
	} else if !errors.Is(err, io.EOF) {
		return r.backoff.next()
	}
	return max(r.interval, reopenFloor)
}

// isFinal reports whether opening the stream again is pointless.
func isFinal(err error) bool {
	return errors.Is(err, ErrStatsNotImplemented) || !recoverable(err, true)
}

// sleep waits for d and reports true, or false as soon as ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
