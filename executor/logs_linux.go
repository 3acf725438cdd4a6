// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tachograph/tacho/executor/logs"
)

// addLogEvent puts what a user should know of their logs into the journal.
func (e *Executor) addLogEvent(event logs.Event) {
	e.journal.add(event.Kind, event.Message, event.Annotations)
}

// collectLogs writes the task's output to its files. finish is for when nothing is left of the task; it returns when
// the files are whole.
func (t *task) collectLogs() (finish func()) {
	if t.logs == nil {
		return func() {}
	}
	ctx, taskIsGone := context.WithCancel(context.Background())
	var collecting sync.WaitGroup
	collecting.Go(func() { t.logs.Run(ctx) })
	return func() {
		taskIsGone()
		collecting.Wait()
		if dropped := t.logs.Dropped(); dropped > 0 {
			t.recorder.info.Notes = append(slices.Clip(t.recorder.info.Notes),
				fmt.Sprintf("%d bytes of the task's output were lost because its log files could not be written", dropped))
		}
		if err := t.logs.Close(); err != nil {
			t.log.Error("close log files", "error", err)
		}
	}
}
