// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestAskedWhileItCloses ends the last stream of all while somebody asks for what has ended: the memory that the
// kernel writes to must not be given back before the answer.
func TestAskedWhileItCloses(t *testing.T) {
	t.Parallel()
	k := run(t, "while :; do /bin/true; done", nil)
	l := newLoop(t)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		s := testkit.Value(l.Open(ctx, k.task(), 50*time.Millisecond))(t)
		recv(t, s)
		var asking sync.WaitGroup
		asked := make(chan struct{})
		var once sync.Once
		for range 4 {
			asking.Go(func() {
				for l.CommandsSoFar(k.task().ID, time.Now()) != nil {
					once.Do(func() { close(asked) })
				}
			})
		}
		<-asked
		cancel()
		asking.Wait()
	}
}

// TestOpenedAgainAtOnce opens a stream while the one before is closing, which an executor that does not answer makes
// long: what ends from then on is counted.
func TestOpenedAgainAtOnce(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "begin")
	k := run(t, "while [ ! -e "+begin+" ]; do sleep 0.05; done; for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; exec sleep 100", func(r *proto.LaunchRequest) {
		for _, id := range procstats.DefaultSelection().Union(procstats.Select(procstats.DiskUsage)).IDs() {
			r.Selection = append(r.Selection, uint32(id))
		}
		r.DiskDir, r.DiskIntervalNs = r.GetDir(), int64(time.Second)
	})
	l, asked := newLoop(t), k.task()
	slow := &slowExecutor{Executor: k.Client, asked: make(chan struct{})}
	asked.Executor = slow
	ctx, cancel := context.WithCancel(t.Context())
	first := testkit.Value(l.Open(ctx, asked, 50*time.Millisecond))(t)
	recv(t, first)
	<-slow.asked
	cancel()
	second := testkit.Value(l.Open(t.Context(), asked, 50*time.Millisecond))(t)
	recv(t, second)
	must(t, os.WriteFile(begin, nil, 0o600))
	var counted int64
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); recv(t, second) {
		if counted = countTrue(l.CommandsSoFar(asked.ID, time.Now().Add(-time.Hour))); counted == 10 {
			return
		}
	}
	t.Errorf("%d processes were counted, want 10", counted)
}

// slowExecutor answers no question for a sample before whoever asks gives up.
type slowExecutor struct {
	sampling.Executor
	asked chan struct{} // closed at the first
	once  sync.Once
}

func (e *slowExecutor) Sample(ctx context.Context, _ time.Duration, _ bool) (*procstats.Sample, error) {
	e.once.Do(func() { close(e.asked) })
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestOpenersOfOneThatEnds has two readers open the stream of a task that ends meanwhile: the second finds what the
// first left.
func TestOpenersOfOneThatEnds(t *testing.T) {
	t.Parallel()
	k := run(t, "exec sleep 100", nil)
	l, ending := newLoop(t), k.task()
	executor := &endingExecutor{Executor: k.Client, task: k, asked: make(chan struct{}), end: make(chan struct{})}
	ending.Executor = executor
	errs := make(chan error, 2)
	open := func() {
		_, err := l.Open(t.Context(), ending, time.Second)
		errs <- err
	}
	go open()
	<-executor.asked
	go open()
	close(executor.end)
	for range 2 {
		if err := <-errs; err == nil {
			t.Error("a stream of a task that has ended was opened")
		}
	}
	if c := l.Commands(ending.ID, time.Now()); c != nil {
		t.Errorf("commands of a task that is not read: %+v", c)
	}
}

// endingExecutor is of a task that ends between the executor's first answer and its arrival.
type endingExecutor struct {
	sampling.Executor
	task       *task
	asked, end chan struct{}
	once       sync.Once
}

func (e *endingExecutor) Target(ctx context.Context, reapedOnly bool) (*proto.TargetResponse, error) {
	answer, err := e.Executor.Target(ctx, reapedOnly)
	e.once.Do(func() {
		close(e.asked)
		<-e.end
		err = e.task.Stop(ctx, 0, 0)
		<-e.task.done
	})
	return answer, err
}

// TestClosedLoop holds that nothing is opened in a loop that has ended.
func TestClosedLoop(t *testing.T) {
	t.Parallel()
	k := run(t, "exec sleep 100", nil)
	l := newLoop(t)
	l.Close()
	if _, err := l.Open(t.Context(), k.task(), time.Second); err == nil {
		t.Error("a stream was opened")
	}
}
