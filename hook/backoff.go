// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
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

// reset returns to the beginning.
func (b *backoff) reset() { b.last = 0 }

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
