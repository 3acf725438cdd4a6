// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/procstats"
)

// Combination says how the numbers of several tasks become one, if series are kept by job or by task.
type Combination string

const (
	// Sum adds them up; of counters it adds what each grew, so that tasks that have ended stay in.
	Sum Combination = "sum"
	// Largest takes the largest: the sum of peaks at different times is the peak of nothing.
	Largest Combination = "largest"
	// NoCombination has none: the number means something for one task only.
	NoCombination Combination = "none"
)

// Combine says how a measurement of several tasks becomes one number.
func Combine(m procstats.Measurement) Combination {
	switch m.ID {
	case procstats.CgroupMemoryPeak, procstats.CgroupMemorySwapPeak, procstats.CgroupPidsPeak,
		procstats.RusageMaxRSS, procstats.RusagePeakRSS, procstats.HeadlineMemoryPeak, procstats.HeadlineProcessesAge,
		procstats.ExecutorInterval, procstats.ExecutorIntervalRequested:
		return Largest
	case procstats.CgroupCPUWeight, procstats.CgroupCPUShares, procstats.CgroupCPUQuotaEffective, procstats.CgroupCPUInheritedQuota,
		procstats.SkbStartTime:
		return NoCombination
	}
	return Sum
}

// column is one measurement in the matrix of tasks and measurements.
type column struct {
	id      procstats.ID
	name    string
	help    string
	kind    exposition.Type
	combine Combination
	// own computes the columns that are not of the table.
	own func(*row) float64
}

// columns lists the table's measurements that are metrics, ordered by id.
func columns() []column {
	var list []column
	for _, m := range procstats.Table() {
		name, ok := exposition.Name(m)
		if !ok {
			continue
		}
		c := column{id: m.ID, name: name, help: m.Help, combine: Combine(m)}
		if m.Kind == procstats.Counter {
			c.kind = exposition.Counter
		}
		list = append(list, c)
	}
	return list
}
