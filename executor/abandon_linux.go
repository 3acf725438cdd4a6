// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
)

// launchLimit is how long an executor waits for its task. A caller that was killed meanwhile asks for none.
const launchLimit = 30 * time.Second

// endUnlaunched ends an executor that nobody has asked for a task.
func (e *Executor) endUnlaunched() {
	timer := time.NewTimer(launchLimit)
	defer timer.Stop()
	select {
	case <-e.ctx.Done():
		return
	case <-timer.C:
	}
	e.mu.Lock()
	launched := e.launches
	e.mu.Unlock()
	if !launched {
		e.log.Warn("nobody asked for a task; this executor ends", "after", launchLimit)
		e.cancel()
	}
}

// killUnclaimed kills a task whose caller went away while it was started: nobody knows of it, and whoever comes next
// starts another in its place.
func (e *Executor) killUnclaimed(ctx context.Context, t *task) {
	if ctx.Err() == nil {
		return
	}
	e.work.Go(func() {
		t.stop(record.Stopped, "its caller went away while it was started", unix.SIGKILL, 0)
		select {
		case <-t.gone:
			e.cancel()
		case <-e.ctx.Done():
		}
	})
}
