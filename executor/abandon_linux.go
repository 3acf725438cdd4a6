// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
)

// launchLimit is how long an executor waits for its task, and for its end where the task was refused. A caller that was
// killed meanwhile asks for neither.
const launchLimit = 30 * time.Second

// endUnlaunched ends an executor that nobody wants anything from. Its timer runs while there is no task only: with one
// the executor sets none.
func (e *Executor) endUnlaunched() {
	if e.current() == nil {
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
