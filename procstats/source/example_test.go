// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source_test

import (
	"fmt"
	"os"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// Reading this very process once, without a cgroup.
func Example() {
	sel, err := procstats.ParseSelection("tree_cpu_seconds_total,process_rss_bytes,cgroup_memory_peak_bytes")
	if err != nil {
		fmt.Println(err)
		return
	}
	collector := source.Open(source.Target{
		FS:    kernel.HostFS(),
		Roots: func() []int { return []int{os.Getpid()} },
	}, sel)
	defer collector.Close()

	cache := source.NewCache(func(latest *procstats.Sample) *procstats.Sample {
		sample := source.Sibling(latest)
		collector.Collect(sample)
		return sample
	}, kernel.Now)
	sample := cache.Get(time.Second)
	peak, _ := sample.Task.Get(procstats.CgroupMemoryPeak)
	fmt.Println("peak read:", peak.Present(), "because", peak.Reason())
	fmt.Println("collections for two readers:", cache.Get(time.Second) == sample, cache.Collections())
	// Output:
	// peak read: false because the task has no cgroup
	// collections for two readers: true 1
}
