// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// minInterval bounds what one caller can cost.
const minInterval = 10 * time.Millisecond

// openReader opens what reads a task that is about to be started, whose memory peaks count for files that the caller
// closes.
func (e *Executor) openReader(t *task, selection procstats.Selection, peaks map[string]*os.File) *reader.Reader {
	request := t.request
	return reader.Open(reader.Options{
		Target: source.Target{
			FS: e.host, Cgroup: t.group.Cgroup, Roots: e.roots, Parent: os.Getpid(), Reaped: e.children.reaped,
			Dir: request.GetDiskDir(),
			Disk: source.DiskLimits{
				Every: time.Duration(request.GetDiskIntervalNs()), Budget: time.Duration(request.GetDiskBudgetNs()),
			},
			MaxRows: int(request.GetMaxRows()), Used: !t.group.Owned, Opened: peaks,
		},
		Selection: selection, Executor: os.Getpid(), Unsampled: "the executor does not sample by itself",
		Pacer: pace.New(request.GetSamplingBudget(), reader.ThreadCPU, func(text string) {
			e.journal.add("sampling_stretched", text, nil)
		}),
		Packets: e.openPackets(request, selection, t.group),
		Sampled: t.reportOutside,
	})
}

// openPackets counts the packets of a task that is about to be started, if this executor samples it: for a driver's
// task its caller counts them, so that not every executor loads programs.
func (e *Executor) openPackets(
	request *proto.LaunchRequest, selection procstats.Selection, group *cgroup.Group,
) *network.Source {
	defer e.programs.EndTrial() // which was begun before it was known whether packets are counted
	if request.GetNetworkOff() {
		return network.Off()
	}
	countable := group.Encloses() && group.V2 != "" && selection.HasSource(procstats.SourceSkb)
	if countable && request.GetRecord().GetIntervalNs() <= 0 {
		return network.Absent(selection, record.NotSampled) // unless the caller says otherwise
	}
	return e.programs.OpenPackets(selection, group.Cgroup, false)
}

// reportOutside reports the processes that run outside the task's cgroup, if there are more than in the sample before.
func (t *task) reportOutside(_, _ *procstats.Sample) {
	seen := t.reader.Outside()
	if len(seen) > t.outside {
		t.journal.addOutside(t.main.PID, seen)
	}
	t.outside = len(seen)
}

// handover is what a caller that reads the task beside this executor has handed over; empty if there is nothing.
func (t *task) handover() *reader.Handover {
	if t.folder == "" {
		return &reader.Handover{}
	}
	h, err := reader.ReadHandover(t.folder)
	if err != nil {
		t.log.Warn("samples of the caller are missing in the record", "error", err)
	}
	return h
}

// latest returns the newest sample with rows that any process has taken of the task; nil if there is none.
func (t *task) latest() *procstats.Sample {
	own, handed := t.reader.Rows(), t.handover().Rows
	if handed != nil && (own == nil || own.Mono < handed.Mono) {
		return handed
	}
	return own
}

// Target implements proto.ExecutorServer.
func (e *Executor) Target(_ context.Context, request *proto.TargetRequest) (*proto.TargetResponse, error) {
	t, err := e.live()
	if err != nil {
		return nil, err
	}
	target := t.reader.Target
	if request.GetReapedOnly() {
		return &proto.TargetResponse{Reaped: reader.FromReaped(target.Reaped())}, nil
	}
	r := &proto.TargetResponse{
		MaxRows: uint32(max(0, target.MaxRows)), //nolint:gosec // a number of rows
		Used:    target.Used, PeaksReset: len(target.Opened) > 0,
		Sample: wire.FromSample(t.reader.Get(0, false), false), Reaped: reader.FromReaped(target.Reaped()),
		Selection: wire.FromSelection(t.reader.Selection),
	}
	var before procstats.Readings
	for id, number := range t.reader.CountedFrom() {
		before.Put(procstats.NumberReading(id, number))
	}
	r.Before = wire.FromReadings(before)
	return r, nil
}

// Sample implements proto.ExecutorServer.
func (e *Executor) Sample(_ context.Context, request *proto.SampleRequest) (*proto.SampleResponse, error) {
	t, err := e.live()
	if err != nil {
		return nil, err
	}
	s := t.reader.Get(time.Duration(max(0, request.GetMaxAgeNs())), request.GetRows())
	return &proto.SampleResponse{Sample: wire.FromSample(s, request.GetRows())}, nil
}

// Stats implements proto.ExecutorServer.
func (e *Executor) Stats(request *proto.StatsRequest, stream grpc.ServerStreamingServer[proto.SampleResponse]) error {
	t, err := e.live()
	if err != nil {
		return err
	}
	interval := time.Duration(request.GetIntervalNs())
	if interval < minInterval {
		return status.Errorf(codes.InvalidArgument, "interval %s: the shortest is %s", interval, minInterval)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() { // ends with ctx, which the deferred cancel ends
		defer cancel()
		select {
		case <-t.gone:
		case <-e.ctx.Done():
		case <-ctx.Done():
		}
	}()
	defer e.gc.streaming()()
	var last *procstats.Sample
	pace := t.reader.Pacer.Start(interval)
	defer pace.End()
	ticks(ctx, pace, func() bool {
		s := t.reader.Get(interval/2, request.GetRows() && affordsRows(t.reader, pace))
		if s == last {
			return true // the stream began shortly before this tick
		}
		if last = s; request.GetRows() {
			s = t.reader.WithRows(s)
		}
		err = stream.Send(&proto.SampleResponse{Sample: wire.FromSample(s, request.GetRows())})
		return err == nil
	})
	if err != nil || stream.Context().Err() == nil {
		return err
	}
	return status.FromContextError(stream.Context().Err()).Err()
}

// affordsRows reports whether a tick has room for all processes. Those of a task without a cgroup are its totals.
func affordsRows(r *reader.Reader, p *pace.Pace) bool {
	tasks, ok := r.Tasks()
	return !ok || p.AffordsRows(tasks)
}

// ticks calls yield at once and then once per interval, or what the pace makes of it, at times that the executors of
// a host share, so that they wake a sleeping CPU together. It returns when ctx ends or yield returns false.
func ticks(ctx context.Context, p *pace.Pace, yield func() bool) {
	interval, more := p.Requested(), true
	next := func() bool {
		interval = p.Tick(func() { more = yield() })
		return more
	}
	if !next() {
		return
	}
	phase := tickPhase(os.Getpid(), p.Requested())
	untilNext := func() time.Duration { // at a tick of the requested interval, even if it is stretched
		return source.UntilTick(kernel.Now().Mono, p.Requested(), phase) + interval - p.Requested()
	}
	timer := time.NewTimer(untilNext())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if !next() {
			return
		}
		timer.Reset(untilNext())
	}
}

// tickPhases is how many groups the executors of a host tick in. All at once, five hundred of them, would delay
// everything else by tens of milliseconds each time: readers of the metrics, and the tasks.
const tickPhases = 10

// tickPhase is how long after the multiples of the interval an executor ticks. PIDs of executors that were started one
// after the other have a pattern; it is multiplied away, by 2^32 over the golden ratio.
func tickPhase(pid int, interval time.Duration) time.Duration {
	const golden = 2654435769
	group := uint64(uint32(pid)*golden) * tickPhases >> 32 //nolint:gosec // PIDs have 22 bits
	return interval / tickPhases * time.Duration(group)
}
