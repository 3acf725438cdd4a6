// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"math"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// selfSource is what measuring a task costs: the executor's CPU time, and the collections of executor and loop together.
type selfSource struct {
	pid         int
	selection   procstats.Selection
	collections float64
	spent       time.Duration
	pacer       *pace.Pacer
}

// newSelfSource continues the counts of the executor.
func newSelfSource(pid int, selection procstats.Selection, executors *procstats.Sample, pacer *pace.Pacer) *selfSource {
	s := &selfSource{pid: pid, selection: selection, pacer: pacer}
	s.count(executors)
	return s
}

// count makes the counts at least those of an earlier sample.
func (s *selfSource) count(earlier *procstats.Sample) {
	collections, _ := earlier.Task.Number(procstats.ExecutorCollections)
	seconds, _ := earlier.Task.Number(procstats.ExecutorCollectSeconds)
	spent := time.Duration(math.Round(seconds * float64(time.Second)))
	s.collections, s.spent = max(s.collections, collections), max(s.spent, spent)
}

// add counts a collection that took so long.
func (s *selfSource) add(took time.Duration) {
	s.collections++
	s.spent += took
}

// Describe implements source.Source.
func (s *selfSource) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: procstats.SourceExecutor, Available: true}
}

// Collect implements source.Source.
func (s *selfSource) Collect(into *procstats.Sample) {
	if !s.selection.HasSource(procstats.SourceExecutor) {
		return
	}
	into.SetRead(procstats.SourceExecutor, kernel.Now())
	if s.selection.Has(procstats.ExecutorCPU) {
		if cpu, ok := executorCPU(s.pid); ok {
			into.SetNumber(procstats.ExecutorCPU, cpu)
		} else {
			into.SetAbsent(procstats.ExecutorCPU, "the executor has exited")
		}
	}
	if s.selection.Has(procstats.ExecutorCollections) {
		into.SetNumber(procstats.ExecutorCollections, s.collections)
	}
	if s.selection.Has(procstats.ExecutorCollectSeconds) {
		into.SetNumber(procstats.ExecutorCollectSeconds, s.spent.Seconds())
	}
	s.pacer.Put(into, s.selection, "the task was not sampled before")
}

// Close implements source.Source.
func (s *selfSource) Close() error { return nil }
