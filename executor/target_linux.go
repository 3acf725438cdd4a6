// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/source"
)

// Target implements proto.ExecutorServer.
func (e *Executor) Target(_ context.Context, request *proto.TargetRequest) (*proto.TargetResponse, error) {
	t, err := e.live()
	if err != nil {
		return nil, err
	}
	s := t.sampler
	if request.GetReapedOnly() {
		return &proto.TargetResponse{Reaped: fromReaped(s.target.Reaped())}, nil
	}
	r := &proto.TargetResponse{
		MaxRows: uint32(max(0, s.target.MaxRows)), Used: s.target.Used, PeaksReset: len(s.target.Opened) > 0, //nolint:gosec // a number of rows
		Sample: wire.FromSample(s.get(0, false), false), Reaped: fromReaped(s.target.Reaped()),
	}
	for _, id := range s.whole.IDs() {
		r.Selection = append(r.Selection, uint32(id))
	}
	var before procstats.Readings
	for id, number := range s.countedFrom() {
		before.Put(procstats.NumberReading(id, number))
	}
	r.Before = wire.FromReadings(before)
	return r, nil
}

func fromReaped(r source.Reaped) *proto.Reaped {
	return &proto.Reaped{
		Processes: r.Processes, CpuNs: int64(r.CPU), MaxRssBytes: r.MaxRSS, Minflt: r.Minflt, Majflt: r.Majflt,
		Nvcsw: r.Nvcsw, Nivcsw: r.Nivcsw, InblockBytes: r.Inblock, OublockBytes: r.Oublock,
		Rchar: r.IO.Rchar, Wchar: r.IO.Wchar, ReadBytes: r.IO.ReadBytes, WriteBytes: r.IO.WriteBytes,
		CancelledWriteBytes: r.IO.CancelledWriteBytes, IoMissed: r.IOMissed,
		Outside: r.Outside, Watched: r.Watched, PeakRssBytes: r.PeakRSS,
	}
}

// countedFrom says what counters began at that do not begin with the task: those of a cgroup that had tasks before, and of
// the cgroups above it.
func (s *sampler) countedFrom() map[procstats.ID]float64 {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	return s.totals.Before()
}

// handover is what a caller that reads the task beside this executor has left; nil if there is none.
func (t *task) handover() *wire.Handover {
	if t.folder == "" {
		return nil
	}
	h, err := wire.ReadHandover(t.folder)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.log.Warn("last samples are missing in the record", "error", err)
		}
		return nil
	}
	return h
}

// handedCommands is what a caller has counted of the processes that have ended; nil if it has not.
func (t *task) handedCommands(end time.Time) *record.Commands {
	if t.folder == "" {
		return nil
	}
	handed, err := record.ReadHanded(t.folder)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.log.Warn("commands are missing in the record", "error", err)
		}
		return nil
	}
	return handed.Until(end)
}

// latest returns the newest sample with rows that any process has taken of the task; nil if there is none.
func (t *task) latest() *procstats.Sample {
	own := t.sampler.latest()
	if h := t.handover(); h != nil && h.Rows != nil && (own == nil || own.Mono < h.Rows.Mono) {
		return h.Rows
	}
	return own
}

// takeOver makes the final record as complete as if this process had taken the samples of its caller. Nothing is left of the
// task.
func (s *sampler) takeOver(h *wire.Handover, recent recent) recent {
	if h == nil {
		return recent
	}
	s.cost.include(h.Last)
	s.collecting.Lock()
	for _, c := range [...]*source.Collector{s.totals, s.rows} { // which of them reads the processes, Split decides
		c.ContinueFrom(cmp.Or(h.Rows, h.Last), func(procstats.ProcessID) bool { return false })
	}
	s.collecting.Unlock()
	recent.rows = cmp.Or(h.Rows, recent.rows)
	if recent.last != nil && recent.last.Mono >= h.Last.Mono {
		return recent
	}
	recent.last, recent.before = h.Last, h.Before // what this process has read may be of long ago
	return recent
}
