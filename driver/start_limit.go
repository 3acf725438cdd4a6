// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// slowStart is how long a start counts towards the limit: one that hangs must not delay the others.
const slowStart = 2 * time.Second

// startLimit limits how many executors start at the same time. A hundred that start at once are not running sooner
// than one after the other, and the ends of running tasks are delayed by all of them.
type startLimit chan struct{}

// newStartLimit allows as many starts as keep the CPUs busy while some of them wait for storage.
func newStartLimit() startLimit { return make(startLimit, 2*runtime.GOMAXPROCS(0)) }

// acquire waits until another start is allowed, or until ctx is done. release ends the start.
func (l startLimit) acquire(ctx context.Context) (release func()) {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	free := sync.OnceFunc(func() { <-l })
	late := time.AfterFunc(slowStart, free)
	return func() {
		late.Stop()
		free()
	}
}
