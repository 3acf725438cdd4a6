// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package reader

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// ownCost is the source of what measuring a task costs: the executor's CPU time, and the collections of all its
// readers.
type ownCost struct {
	pid         int // of the executor; 0 without one
	selection   procstats.Selection
	collections float64
	spent       time.Duration
	pacer       *pace.Pacer
	unsampled   string // why there is no interval
}

// include makes the counts at least those of another reader's sample.
func (c *ownCost) include(s *procstats.Sample) {
	collections, _ := s.Task.Number(procstats.ExecutorCollections)
	seconds, _ := s.Task.Number(procstats.ExecutorCollectSeconds)
	spent := time.Duration(math.Round(seconds * float64(time.Second)))
	c.collections, c.spent = max(c.collections, collections), max(c.spent, spent)
}

// add counts a collection that took so long.
func (c *ownCost) add(took time.Duration) {
	c.collections++
	c.spent += took
}

// Describe implements source.Source.
func (c *ownCost) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: procstats.SourceExecutor, Available: true}
}

// Collect implements source.Source.
func (c *ownCost) Collect(into *procstats.Sample) {
	if !c.selection.HasSource(procstats.SourceExecutor) {
		return
	}
	into.SetRead(procstats.SourceExecutor, kernel.Now())
	reason := ""
	cpu, err := kernel.ProcessCPU(c.pid)
	if c.pid == 0 {
		reason = "what is only watched has no executor"
	} else if err != nil {
		reason = "the executor has exited"
	}
	into.SetSelected(c.selection, procstats.ExecutorCPU, cpu.Seconds(), reason)
	into.SetSelected(c.selection, procstats.ExecutorCollections, c.collections, "")
	into.SetSelected(c.selection, procstats.ExecutorCollectSeconds, c.spent.Seconds(), "")
	c.pacer.Put(into, c.selection, c.unsampled)
}

// Close implements source.Source.
func (c *ownCost) Close() error { return nil }

// ThreadCPU is the CPU time of this thread so far, clock_gettime(2).
func ThreadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// FromReaped returns the message of what an executor has reaped.
func FromReaped(r source.Reaped) *proto.Reaped {
	return &proto.Reaped{
		Processes: r.Processes, CpuNs: int64(r.CPU), MaxRssBytes: r.MaxRSS, Minflt: r.Minflt, Majflt: r.Majflt,
		Nvcsw: r.Nvcsw, Nivcsw: r.Nivcsw, InblockBytes: r.Inblock, OublockBytes: r.Oublock,
		Rchar: r.IO.Rchar, Wchar: r.IO.Wchar, ReadBytes: r.IO.ReadBytes, WriteBytes: r.IO.WriteBytes,
		CancelledWriteBytes: r.IO.CancelledWriteBytes, IoMissed: r.IOMissed,
		Outside: r.Outside, Watched: r.Watched, PeakRssBytes: r.PeakRSS,
	}
}

// ToReaped returns what an executor has reaped, as it said at a time.
func ToReaped(m *proto.Reaped, at procstats.Stamp) source.Reaped {
	return source.Reaped{
		CPU: time.Duration(m.GetCpuNs()), MaxRSS: m.GetMaxRssBytes(), Minflt: m.GetMinflt(), Majflt: m.GetMajflt(),
		Nvcsw: m.GetNvcsw(), Nivcsw: m.GetNivcsw(), Inblock: m.GetInblockBytes(), Oublock: m.GetOublockBytes(),
		IO: kernel.ProcIO{
			Rchar: m.GetRchar(), Wchar: m.GetWchar(), ReadBytes: m.GetReadBytes(), WriteBytes: m.GetWriteBytes(),
			CancelledWriteBytes: m.GetCancelledWriteBytes(),
		},
		IOMissed: m.GetIoMissed(), Processes: m.GetProcesses(), At: at,
		Outside: m.GetOutside(), Watched: m.GetWatched(), PeakRSS: m.GetPeakRssBytes(),
	}
}
