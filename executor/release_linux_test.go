// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
)

// TestShutdownAfterTheEndIsReported holds that a caller which was told of the end can shut the executor down,
// although the executor is still closing what it had open for the task.
func TestShutdownAfterTheEndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := &task{outcome: outcome{gone: make(chan struct{}), released: make(chan struct{})}}
		close(ended.gone)
		e := &Executor{task: ended, phase: running}
		e.cancel = func() {}
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error)
		call := func(ctx context.Context) {
			_, err := e.Shutdown(ctx, &proto.ShutdownRequest{})
			results <- err
		}
		go call(ctx)
		synctest.Wait()
		cancel()
		if err := <-results; status.Code(err) != codes.Canceled {
			t.Errorf("a caller that gave up: %v", err)
		}
		go call(t.Context())
		synctest.Wait()
		select {
		case err := <-results:
			t.Fatalf("it was answered before the task was released: %v", err)
		default:
		}
		e.mu.Lock()
		e.phase = exited
		e.mu.Unlock()
		close(ended.released)
		if err := <-results; status.Code(err) == codes.FailedPrecondition {
			t.Error(err)
		}
	})
}
