// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// asked is an executor that counts how often it is asked.
type asked struct {
	Executor
	times int
}

func (a *asked) Target(context.Context, bool) (*proto.TargetResponse, error) {
	a.times++
	return &proto.TargetResponse{Reaped: &proto.Reaped{Processes: int64(a.times)}}, nil
}

// TestReapedIsAskedForOnce holds that an executor which was awake is asked what it has reaped only if it has reaped,
// and once. This process is the executor: it was awake whenever it is looked at, and no other test has children meanwhile.
func TestReapedIsAskedForOnce(t *testing.T) {
	executor := &asked{}
	r := &reading{
		loop: &Loop{now: kernel.Now}, ctx: t.Context(), task: Task{Executor: executor, Process: procstats.ProcessID{PID: os.Getpid()}},
	}
	waited := testkit.Value(kernel.ReadWaited(kernel.HostFS(), os.Getpid()))(t)
	r.executor.waited = waited
	r.executor.set(&proto.Reaped{}, kernel.Now())
	look := func(want int) {
		t.Helper()
		later := kernel.Now()
		later.Mono += 2 * reapedAge
		r.executor.refresh(r, &procstats.Sample{Stamp: later})
		r.executor.wait()
		if executor.times != want {
			t.Errorf("it was asked %d times, want %d", executor.times, want)
		}
	}
	for range 3 {
		look(0)
		for began := time.Now(); time.Since(began) < time.Millisecond; { // its CPU clock moves
		}
	}
	testkit.Must(t, exec.Command("/bin/true").Run())
	look(1)
	look(1)
	if got := r.executor.get().Processes; got != 1 {
		t.Errorf("%d were reaped, want what it answered", got)
	}
}
