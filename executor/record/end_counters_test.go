// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// TestEndCounters has 0 where nothing was counted, and nothing where it was not measured.
func TestEndCounters(t *testing.T) {
	s := &procstats.Sample{}
	s.SetNumber(procstats.CgroupMemoryEventsMax, 12345678)
	s.SetNumber(procstats.CgroupMemoryEventsLow, 0)
	s.SetNumber(procstats.PSIIOSome, 1.25)
	s.SetAbsent(procstats.PSICPUFull, "no pressure files")
	s.SetNumber(procstats.CgroupMemoryCurrent, 4096)
	r := &record.Record{}
	r.Measurements, r.Absent = record.Values(s.Task)
	want := map[string]string{
		"cgroup_memory_events_max_total": "12345678", "cgroup_memory_events_low_total": "0", "psi_io_some_seconds_total": "1.25",
	}
	if diff := cmp.Diff(want, r.EndCounters()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (&record.Record{}).EndCounters(); len(got) != 0 {
		t.Errorf("of a record without measurements: %v", got)
	}
}
