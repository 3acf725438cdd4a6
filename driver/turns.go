// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// turnLimit is how long a start holds its turn: one that hangs must not hold up the others.
const turnLimit = 2 * time.Second

// turns lets a few executors begin at a time. A hundred that begin at once do not run sooner than one after the other would, and
// the ends of those that already run wait for them all.
type turns chan struct{}

// newTurns returns as many turns as keep the CPUs busy while some starts wait for storage.
func newTurns() turns { return make(turns, 2*runtime.GOMAXPROCS(0)) }

// take waits for a turn, or until ctx is done, and returns what gives it back.
func (s turns) take(ctx context.Context) (done func()) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	giveBack := sync.OnceFunc(func() { <-s })
	late := time.AfterFunc(turnLimit, giveBack)
	return func() {
		late.Stop()
		giveBack()
	}
}
