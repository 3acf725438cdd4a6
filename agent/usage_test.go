// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/procstats"
)

// TestForeignReading is about the few numbers of a driver that is not ours: each has the least guarantee it may have.
func TestForeignReading(t *testing.T) {
	s := sampleOf(&driver.TaskStats{
		Timestamp: time.Unix(1000, 0),
		Aggregate: driver.ResourceUsage{
			CPU:    driver.CPUUsage{Percent: 150, Measured: []driver.CPUField{driver.CPUPercent}},
			Memory: driver.MemoryUsage{RSS: 4096, Usage: 9999, Measured: []driver.MemoryField{driver.MemoryRSS}},
		},
	})
	if v, ok := s.Task.Number(procstats.CgroupMemoryCurrent); ok {
		t.Errorf("a usage of %v that was not measured", v)
	}
	want := map[procstats.ID]struct {
		value     float64
		source    string
		guarantee procstats.Guarantee
	}{
		procstats.HeadlineCores:  {1.5, "the driver", procstats.Sampled},
		procstats.HeadlineMemory: {4096, "portable_rss_bytes", procstats.UpperBound},
	}
	for _, h := range withDriversOwn(procstats.Headlines(s, procstats.History{}), s) {
		v, ok := h.Reading.Number()
		w, wanted := want[h.ID]
		if ok != wanted || v != w.value || h.Source != w.source || h.Guarantee != w.guarantee {
			t.Errorf("%s is %v (read: %v) from %s, %s", h.ID, v, ok, h.Source, h.Guarantee)
		}
	}
}
