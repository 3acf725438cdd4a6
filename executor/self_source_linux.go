// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// selfSource is what the measuring itself costs.
type selfSource struct {
	selection procstats.Selection
	cost      *cost
	pacer     *pace.Pacer
}

// Describe implements procstats.Source.
func (s *selfSource) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: procstats.SourceExecutor, Available: true}
}

// Collect implements procstats.Source.
func (s *selfSource) Collect(into *procstats.Sample) {
	if !s.selection.HasSource(procstats.SourceExecutor) {
		return
	}
	into.SetRead(procstats.SourceExecutor, kernel.Now())
	if s.selection.Has(procstats.ExecutorCPU) {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
			into.SetAbsent(procstats.ExecutorCPU, "getrusage: "+err.Error())
		} else {
			into.SetNumber(procstats.ExecutorCPU, time.Duration(usage.Utime.Nano()+usage.Stime.Nano()).Seconds())
		}
	}
	if s.selection.Has(procstats.ExecutorCollections) {
		into.SetNumber(procstats.ExecutorCollections, float64(s.cost.collections.Load()))
	}
	if s.selection.Has(procstats.ExecutorCollectSeconds) {
		into.SetNumber(procstats.ExecutorCollectSeconds, time.Duration(s.cost.nanoseconds.Load()).Seconds())
	}
	s.pacer.Put(into, s.selection, "the executor does not sample by itself")
}

// processCPU is the CPU time of this process so far, getrusage(2).
func processCPU() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Close implements procstats.Source.
func (s *selfSource) Close() error { return nil }
