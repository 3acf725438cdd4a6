// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"fmt"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Reducing a counter over a window.
func ExampleWindow() {
	read := func(second int, cpu float64) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Duration(second) * time.Second}}
		s.SetNumber(procstats.CgroupCPUUsage, cpu)
		return s
	}
	var w procstats.Window
	w.Add(read(10, 100))
	one, _ := w.Reduce(procstats.CgroupCPUUsage, procstats.Rate)
	fmt.Println(one.Present(), one.Reason())

	w.Add(read(14, 106))
	rate, _ := w.Reduce(procstats.CgroupCPUUsage, procstats.Rate)
	cores, _ := rate.Number()
	fmt.Println(cores, "cores")

	_, err := w.Reduce(procstats.CgroupCPUUsage, procstats.Mean)
	fmt.Println(err)
	// Output:
	// false only one reading in the window
	// 1.5 cores
	// mean of cgroup_cpu_usage_seconds_total, a counter (legal: delta, rate, last): illegal reduction
}

func ExampleParseSelection() {
	_, err := procstats.ParseSelection("default,cgroup_memory_peek_bytes")
	fmt.Println(err)
	sel, _ := procstats.ParseSelection("psi_cpu,disk,-disk_files")
	fmt.Println(sel.Names())
	// Output:
	// unknown measurement "cgroup_memory_peek_bytes" (did you mean cgroup_memory_peak_bytes?)
	// [psi_cpu_some_seconds_total psi_cpu_full_seconds_total disk_usage_bytes]
}
