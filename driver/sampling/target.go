// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sampling

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// ask makes the target of a task of what the executor alone knows. Files that it opens are the caller's to close.
func (r *reading) ask(ctx context.Context) (source.Target, *proto.TargetResponse, error) {
	// Peaks are reset before the executor is asked, so that its peaks and these together cover all the time.
	peaks := (&cgroup.Group{Cgroup: r.task.Cgroup}).ResetPeaks()
	// If it cannot be read, the executor is asked again.
	r.executor.waited, _ = kernel.ReadWaited(kernel.HostFS(), r.task.Process.PID)
	asked, err := r.task.Executor.Target(ctx, false)
	if err == nil && asked.GetPeaksReset() != (len(peaks) > 0) && asked.GetUsed() {
		err = fmt.Errorf("the memory peak: %w", ErrUnreadable)
	}
	if err != nil || !asked.GetPeaksReset() {
		for _, file := range peaks {
			_ = file.Close()
		}
		peaks = nil
	}
	if status.Code(err) == codes.Unimplemented {
		err = fmt.Errorf("executor of an older build: %w", ErrUnreadable)
	}
	if err != nil {
		return source.Target{}, nil, fmt.Errorf("ask executor: %w", err)
	}
	r.executor.set(asked.GetReaped(), r.loop.now())
	return source.Target{
		FS: kernel.HostFS(), Cgroup: r.task.Cgroup, Roots: r.children, Parent: r.task.Process.PID,
		MaxRows: int(asked.GetMaxRows()), MaxKept: keptFiles, Reaped: r.executor.get,
		Used: asked.GetUsed(), Before: countedFrom(asked), Least: leastPeaks(asked, peaks), Opened: peaks,
	}, asked, nil
}

// adoptedOnly is how often only the children are listed that the executor has adopted, for each time that all are:
// those it has started itself are in the cgroup at first, and are seen to leave.
const adoptedOnly = 6

// children are the task's processes that the executor is the parent of: those of them that have left the cgroup are
// found by it.
func (r *reading) children() []int {
	list, before := kernel.Adopted, &r.executor.listed[0]
	if r.executor.listings%adoptedOnly == 0 {
		list, before = kernel.Children, &r.executor.listed[1]
	}
	r.executor.listings++
	pids, err := list(kernel.HostFS(), r.task.Process.PID)
	if err != nil {
		return nil // it has ended, or its children are not listed: what is seen to leave is found all the same
	}
	// The same children are of the same process.
	if !slices.Equal(pids, *before) && !kernel.Alive(kernel.HostFS(), r.task.Process) {
		return nil
	}
	*before = pids
	return pids
}

func countedFrom(asked *proto.TargetResponse) map[procstats.ID]float64 {
	before := make(map[procstats.ID]float64)
	for _, reading := range wire.ToReadings(asked.GetBefore()) {
		before[reading.ID()], _ = reading.Number()
	}
	return before
}

// leastPeaks are the peaks of the executor's descriptors until it was asked.
func leastPeaks(asked *proto.TargetResponse, peaks map[string]*os.File) map[procstats.ID]float64 {
	if len(peaks) == 0 {
		return nil
	}
	least := make(map[procstats.ID]float64)
	sample := wire.ToSample(asked.GetSample())
	for _, id := range []procstats.ID{procstats.CgroupMemoryPeak, procstats.CgroupMemorySwapPeak} {
		if peak, ok := sample.Task.Number(id); ok {
			least[id] = peak
		}
	}
	return least
}

const (
	// reapedAge is the least time between two questions for what an executor has reaped.
	reapedAge = 10 * time.Second
	// reapedLimit bounds the wait for the answer.
	reapedLimit = 5 * time.Second
)

// executorSide is what the executor alone knows of a task while that runs: what it has reaped, as it last said, and
// its children. It is asked again only if it has reaped since: the question wakes it, and an executor that was awake
// has not always reaped. The monitor thread of its Go runtime runs once a minute.
type executorSide struct {
	latest atomic.Pointer[source.Reaped]
	asking atomic.Bool
	work   sync.WaitGroup
	// cpu is its CPU time in the last sample, in seconds, and waited what the kernel had counted when it was last asked.
	cpu    float64
	waited kernel.Waited

	listings int      // of its children
	listed   [2][]int // the last of those that it has adopted, and of all
}

func (p *executorSide) get() source.Reaped { return *p.latest.Load() }

func (p *executorSide) wait() { p.work.Wait() }

func (p *executorSide) set(m *proto.Reaped, at procstats.Stamp) {
	p.latest.Store(new(reader.ToReaped(m, at)))
}

// refresh asks the executor again if it has reaped since it was last asked.
func (p *executorSide) refresh(r *reading, s *procstats.Sample) {
	if p.asking.Load() || s.Mono-p.get().At.Mono < reapedAge {
		return
	}
	cpu, read := s.Task.Number(procstats.ExecutorCPU)
	if read && cpu == p.cpu {
		return // it has slept
	}
	p.cpu = cpu
	waited, err := kernel.ReadWaited(kernel.HostFS(), r.task.Process.PID)
	if err != nil || waited == p.waited {
		return
	}
	p.asking.Store(true)
	p.work.Go(func() {
		defer p.asking.Store(false)
		ctx, cancel := context.WithTimeout(r.ctx, reapedLimit)
		defer cancel()
		if asked, err := r.task.Executor.Target(ctx, true); err == nil {
			p.set(asked.GetReaped(), r.loop.now())
			p.waited = waited // the answer has all of that: the executor answers between two children, not while it reaps one
		}
	})
}
