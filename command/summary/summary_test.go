// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

func TestMemorySummary(t *testing.T) {
	for _, test := range []struct {
		source    procstats.ID
		guarantee procstats.Guarantee
		want      string
	}{
		{procstats.CgroupMemoryPeak, procstats.Exact, "peak 2 MiB (exact, including page cache)"},
		{procstats.RusageMaxRSS, procstats.UpperBound, "peak at most 2 MiB (rusage_maxrss_bytes)"},
		{procstats.TreeRSS, procstats.LowerBound, "peak at least 2 MiB (tree_rss_bytes)"},
		{procstats.TreeRSS, procstats.Sampled, "peak 2 MiB (sampled, tree_rss_bytes)"},
	} {
		r := &record.Record{Headline: map[string]record.HeadlineValue{
			procstats.HeadlineMemoryPeak.String(): {Value: new(2.0 * (1 << 20)), Source: test.source.String(), Guarantee: test.guarantee},
		}}
		if got := memorySummary(r); got != test.want {
			t.Errorf("%s: %q, want %q", test.guarantee, got, test.want)
		}
	}
}

// TestWaitedSummary holds that throttled time is not written as a share of the time.
func TestWaitedSummary(t *testing.T) {
	waited := map[string]any{procstats.PSICPUSome.String(): 1.0, procstats.PSIIOSome.String(): 0.0}
	throttled := map[string]any{procstats.CgroupCPUThrottled.String(): 0.98}
	both := map[string]any{procstats.PSIIOSome.String(): 0.0, procstats.CgroupCPUThrottled.String(): 0.98}
	for _, test := range []struct {
		measurements map[string]any
		stall        record.Stall
		want         string
	}{
		{waited, "fine", "for CPU 50 %, I/O 0 % of the time: fine"},
		{both, "cpu-throttled", "for I/O 0 % of the time; throttled by its CPU quota for 980 ms, summed over CPUs: cpu-throttled"},
		{throttled, "", "throttled by its CPU quota for 980 ms, summed over CPUs"},
		{map[string]any{}, "fine", ""},
	} {
		r := &record.Record{
			WallSeconds: new(2.0), Measurements: test.measurements, Diagnosis: record.Diagnosis{Stall: test.stall},
		}
		if got := waitedSummary(r); got != test.want {
			t.Errorf("%v: %q, want %q", test.measurements, got, test.want)
		}
	}
}
