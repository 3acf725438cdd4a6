// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// selfSource is what the measuring itself costs.
type selfSource struct {
	selection procstats.Selection
	cost      *cost
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
	into.Sources[procstats.SourceExecutor] = kernel.Now()
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
}

// Close implements procstats.Source.
func (s *selfSource) Close() error { return nil }
