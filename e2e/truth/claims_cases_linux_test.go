// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// TestClaims holds each kind of false label, and its true neighbour.
func TestClaims(t *testing.T) {
	truth := facts{
		cpu: 1, slack: 0.02, cpus: 2, peak: 100 * mib, most: 60 * mib, held: 50 * mib, beside: 10 * mib, overhead: mib,
		handed: 40 * mib, stored: 10 * mib, dropped: 20 * mib, inner: 1, whole: true, heldFrom: 10, heldTo: 20,
	}
	tests := []struct {
		what      string
		value     float64
		guarantee procstats.Guarantee
		source    string
		want      kind
	}{
		{"cpu_seconds_total", 1.019, procstats.Exact, "cgroup_cpu_usage_seconds_total", ""},
		{"cpu_seconds_total", 1.03, procstats.Exact, "cgroup_cpu_usage_seconds_total", notExact},
		{"cpu_seconds_total", 0.5, procstats.LowerBound, "tree_cpu_seconds_total", ""},
		{"cpu_seconds_total", 1.1, procstats.LowerBound, "tree_cpu_seconds_total", tooHigh},
		{"cpu_seconds_total", 0, procstats.LowerBound, "tree_cpu_seconds_total", falseZero},
		{"cpu_seconds_total", 1, "", "tree_cpu_seconds_total", missing},
		{"cpu_cores", 3, procstats.Exact, "cgroup_cpu_usage_seconds_total", notExact},
		{"cpu_cores_average", 0.7, procstats.Exact, "cgroup_cpu_usage_seconds_total", notExact},
		{"cpu_cores_average", 0.95, procstats.Exact, "cgroup_cpu_usage_seconds_total", ""},
		{"memory_peak_bytes", 99 * mib, procstats.Exact, "cgroup_memory_peak_bytes", ""},
		{"memory_peak_bytes", 80 * mib, procstats.Exact, "cgroup_memory_peak_bytes", notExact},
		{"memory_peak_bytes", 50 * mib, procstats.UpperBound, "rusage_maxrss_bytes", tooLow},
		{"memory_peak_bytes", 62 * mib, procstats.UpperBound, "rusage_maxrss_bytes", tooLow},
		{"memory_peak_bytes", 75 * mib, procstats.UpperBound, "rusage_maxrss_bytes", ""},
		{"memory_peak_bytes", 300 * mib, procstats.Sampled, "tree_rss_bytes", impossible},
		{"memory_bytes", 300 * mib, procstats.Sampled, "tree_rss_bytes", impossible},
		{"io_write_bytes_total", 40 * mib, procstats.LowerBound, "tree_io_write_bytes_total", tooHigh},
		{"io_write_bytes_total", 20 * mib, procstats.LowerBound, "tree_io_write_bytes_total", ""},
		{"io_write_bytes_total", 10 * mib, procstats.Exact, "cgroup_io_write_bytes_total", notExact},
		{"io_write_bytes_total", 0, procstats.Exact, "cgroup_io_write_bytes_total", falseZero},
		{"io_write_bytes_total", 0, procstats.LowerBound, "tree_io_stored_bytes_total", falseZero},
		{"io_read_bytes_total", 0, procstats.LowerBound, "tree_io_read_bytes_total", falseZero},
		{"io_write_handed_bytes_total", 0, procstats.LowerBound, "tree_io_write_bytes_total", falseZero},
		{"io_write_handed_bytes_total", 50 * mib, procstats.LowerBound, "tree_io_write_bytes_total", tooHigh},
		{"io_write_bytes_total", 15 * mib, procstats.Sampled, "cgroup_io_write_bytes_total", ""},
	}
	for _, test := range tests {
		r := &record.Record{Headline: map[string]record.HeadlineValue{
			test.what: {Value: &test.value, Guarantee: test.guarantee, Source: test.source},
		}}
		var got kind
		for _, wrong := range truth.checkRecord(r) {
			got = wrong.kind
		}
		if got != test.want {
			t.Errorf("%s %g, %s (%s): found %q, want %q", test.what, test.value, test.guarantee, test.source, got, test.want)
		}
	}
}

// TestSums holds sums that do not close, and one that does.
func TestSums(t *testing.T) {
	for _, test := range []struct {
		rows, exited, unattributed, total float64
		want                              kind
	}{
		{0.5, 0.3, 0.2, 1, ""},
		{0.5, 0.3, 0.1, 1, notClosed},
		{0.6, 0.401, -0.001, 1, ""},
		{0.6, 0.41, -0.01, 1, below0},
	} {
		p := &record.Processes{
			Rows:                   []record.ProcessRow{{Measurements: map[string]any{"process_cpu_seconds_total": test.rows}}},
			Exited:                 record.ProcessSum{CPUSeconds: &test.exited},
			UnattributedCPUSeconds: &test.unattributed, TotalCPUSeconds: &test.total,
		}
		var got kind
		for _, wrong := range closing("info.json", p) {
			got = wrong.kind
		}
		if got != test.want {
			t.Errorf("%+v: found %q, want %q", test, got, test.want)
		}
	}
}
