// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// Prefix begins the names of all metrics of a task.
const Prefix = "tacho_task_"

// Name is the metric name of a measurement: tacho_task_ and its name in the table. The kernel's words for
// pressure are replaced by those that node_exporter and the kubelet have in metrics: some is waiting, full is
// stalled. ok is false for what is no metric: texts, and what exists once per process.
func Name(m procstats.Measurement) (name string, ok bool) {
	if m.Scope == procstats.ProcessScope || (m.Kind != procstats.Gauge && m.Kind != procstats.Counter) {
		return "", false
	}
	name = m.Name
	if m.Source == procstats.SourcePSI {
		name = strings.NewReplacer("_some_", "_waiting_", "_full_", "_stalled_").Replace(name)
	}
	return Prefix + name, true
}

// Combination says how the numbers of several tasks become one, where series are kept by job or by task.
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
		procstats.RusageMaxRSS, procstats.HeadlineMemoryPeak:
		return Largest
	case procstats.CgroupCPUWeight, procstats.CgroupCPUShares:
		return NoCombination
	}
	return Sum
}

// column is one measurement in the matrix of tasks and measurements.
type column struct {
	id      procstats.ID
	name    string
	help    string
	kind    Type
	combine Combination
	// own computes the columns that are not of the table.
	own func(*row) float64
	// stays says of a counter that it goes on over the starts of a task.
	stays bool
}

// columns lists the table's measurements that are metrics, ordered by id.
func columns() []column {
	var list []column
	for _, m := range procstats.Table() {
		name, ok := Name(m)
		if !ok {
			continue
		}
		c := column{id: m.ID, name: name, help: m.Help, combine: Combine(m)}
		if m.Kind == procstats.Counter {
			c.kind = Counter
		}
		list = append(list, c)
	}
	return list
}
