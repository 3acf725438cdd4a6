// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/procstats"
)

// headline is a HeadlineValue in words.
func headline(h procstats.HeadlineValue) string {
	if !h.Reading.Present() {
		return show(h.Reading)
	}
	return show(h.Reading) + " " + string(h.Guarantee) + " " + h.Source
}

func TestHeadlines(t *testing.T) {
	cgroup := []procstats.Reading{
		number(procstats.CgroupCPUUsage, 12), number(procstats.TreeCPU, 11), number(procstats.RusageCPU, 3),
		number(procstats.CgroupMemoryCurrent, 1000), number(procstats.CgroupMemoryActiveFile, 200),
		number(procstats.CgroupMemoryInactiveFile, 300), number(procstats.SmapsPSS, 70), number(procstats.TreeRSS, 80),
	}
	tests := []struct {
		name    string
		sample  *procstats.Sample
		history procstats.History
		want    map[procstats.ID]string
	}{
		{
			name:   "cgroup v2",
			sample: sampleAt(at(2), append(cgroup, number(procstats.CgroupMemorySlabReclaimable, 50), number(procstats.CgroupMemoryPeak, 2000), number(procstats.CgroupIORead, 5), number(procstats.TreeIORead, 6), number(procstats.CgroupIOWrite, 0))...),
			history: procstats.History{
				Previous: sampleAt(at(0), number(procstats.CgroupCPUUsage, 9), number(procstats.TreeCPU, 11)),
				Elapsed:  24 * time.Second, Peak: number(procstats.TreeRSS, 90),
			},
			want: map[procstats.ID]string{
				procstats.HeadlineCPU:           "12 exact cgroup_cpu_usage_seconds_total",
				procstats.HeadlineCores:         "1.5 exact cgroup_cpu_usage_seconds_total",
				procstats.HeadlineCoresAverage:  "0.5 exact cgroup_cpu_usage_seconds_total",
				procstats.HeadlineMemory:        "450 exact cgroup_memory_current_bytes",
				procstats.HeadlineMemoryCharged: "1000 exact cgroup_memory_current_bytes",
				procstats.HeadlineMemoryPeak:    "2000 exact cgroup_memory_peak_bytes",
				procstats.HeadlineIORead:        "5 exact cgroup_io_read_bytes_total",
				procstats.HeadlineIOWrite:       "0 exact cgroup_io_write_bytes_total",
			},
		},
		{
			name: "cgroup v1 has no slab and block counters that miss writeback",
			sample: sampleAt(at(2), append(cgroup,
				absent(procstats.CgroupMemorySlabReclaimable, "v2 only"), absent(procstats.CgroupIORead, "v2 only"),
				number(procstats.CgroupBlkioRead, 7), number(procstats.TreeIOWrite, 8), number(procstats.CgroupBlkioWrite, 1))...),
			want: map[procstats.ID]string{
				procstats.HeadlineMemory:  "500 upper_bound cgroup_memory_current_bytes",
				procstats.HeadlineIORead:  "7 lower_bound cgroup_blkio_read_bytes_total",
				procstats.HeadlineIOWrite: "8 lower_bound tree_io_write_bytes_total",
				procstats.HeadlineCores:   "absent: a rate needs an earlier sample",
			},
		},
		{
			name: "memory.stat lags behind memory.current",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100), number(procstats.CgroupMemoryActiveFile, 0),
				number(procstats.CgroupMemoryInactiveFile, 90), number(procstats.CgroupMemorySlabReclaimable, 20)),
			want: map[procstats.ID]string{procstats.HeadlineMemory: "0 exact cgroup_memory_current_bytes"},
		},
		{
			name: "a cgroup without its memory.stat",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100),
				absent(procstats.CgroupMemoryActiveFile, "gone"), number(procstats.TreeRSS, 80)),
			want: map[procstats.ID]string{
				procstats.HeadlineMemory:        "80 upper_bound tree_rss_bytes",
				procstats.HeadlineMemoryCharged: "100 exact cgroup_memory_current_bytes",
			},
		},
		{
			name: "no cgroup",
			sample: sampleAt(at(4), absent(procstats.CgroupCPUUsage, "the task has no cgroup"), number(procstats.TreeCPU, 6),
				absent(procstats.CgroupMemoryCurrent, "the task has no cgroup"), absent(procstats.CgroupMemoryPeak, "the task has no cgroup"),
				number(procstats.SmapsPSS, 70), number(procstats.TreeRSS, 80), number(procstats.RusageMaxRSS, 99), number(procstats.RusageInblock, 512)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.TreeCPU, 5)), Peak: number(procstats.TreeRSS, 90)},
			want: map[procstats.ID]string{
				procstats.HeadlineCPU:           "6 lower_bound tree_cpu_seconds_total",
				procstats.HeadlineCores:         "0.25 lower_bound tree_cpu_seconds_total",
				procstats.HeadlineCoresAverage:  "absent: the wall time of the run is not known",
				procstats.HeadlineMemory:        "80 upper_bound tree_rss_bytes",
				procstats.HeadlineMemoryCharged: "absent: cgroup_memory_current_bytes: the task has no cgroup",
				procstats.HeadlineMemoryPeak:    "99 upper_bound rusage_maxrss_bytes",
				procstats.HeadlineIORead:        "512 lower_bound rusage_inblock_bytes_total",
				procstats.HeadlineIOWrite:       "absent: nothing it can be taken from is selected",
			},
		},
		{
			name:    "samples above every single process",
			sample:  sampleAt(at(0), number(procstats.RusageMaxRSS, 99)),
			history: procstats.History{Peak: number(procstats.TreeRSS, 120)},
			want:    map[procstats.ID]string{procstats.HeadlineMemoryPeak: "120 sampled tree_rss_bytes"},
		},
		{
			name:   "never sampled",
			sample: sampleAt(at(0), number(procstats.RusageCPU, 1), number(procstats.RusageMaxRSS, 99)),
			want: map[procstats.ID]string{
				procstats.HeadlineCPU:        "1 lower_bound rusage_cpu_seconds_total",
				procstats.HeadlineMemory:     "absent: nothing it can be taken from is selected",
				procstats.HeadlineMemoryPeak: "99 upper_bound rusage_maxrss_bytes",
			},
		},
		{
			name:    "a counter that went down",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 1)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.CgroupCPUUsage, 2))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "absent: the counter went down: its source started again"},
		},
		{
			name:    "the same sample twice",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 1)),
			history: procstats.History{Previous: sampleAt(at(1), number(procstats.CgroupCPUUsage, 1))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "absent: only one reading in the window"},
		},
		{
			name:    "a sample of another boot",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 3)),
			history: procstats.History{Previous: sampleAt(at(2), number(procstats.CgroupCPUUsage, 2))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "absent: the clock did not advance between the readings"},
		},
		{
			name:   "over a window",
			sample: sampleAt(at(8), number(procstats.CgroupCPUUsage, 6)),
			history: procstats.History{
				Previous: sampleAt(at(7), number(procstats.CgroupCPUUsage, 6)),
				Window: windowOf(
					sampleAt(at(0), number(procstats.CgroupCPUUsage, 2)), sampleAt(at(7), number(procstats.CgroupCPUUsage, 6)),
					sampleAt(at(8), number(procstats.CgroupCPUUsage, 6)),
				),
			},
			want: map[procstats.ID]string{procstats.HeadlineCores: "0.5 exact cgroup_cpu_usage_seconds_total"},
		},
		{
			name:    "a cgroup that came later: no rate across two sources",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 5), number(procstats.TreeCPU, 3)),
			history: procstats.History{Previous: sampleAt(at(0), absent(procstats.CgroupCPUUsage, "gone"), number(procstats.TreeCPU, 1))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "2 lower_bound tree_cpu_seconds_total"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := map[procstats.ID]string{}
			for _, h := range procstats.Headlines(tt.sample, tt.history) {
				if h.ID != h.Reading.ID() {
					t.Errorf("headline %d holds a reading of %d", h.ID, h.Reading.ID())
				}
				if _, asked := tt.want[h.ID]; asked {
					got[h.ID] = headline(h)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("headlines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeadlinesAreAllThereInOrder(t *testing.T) {
	var want, got []string
	for _, m := range procstats.Table() {
		if m.Scope == procstats.HeadlineScope {
			want = append(want, m.Name)
		}
	}
	for _, h := range procstats.Headlines(&procstats.Sample{}, procstats.History{}) {
		m, _ := procstats.Lookup(h.ID)
		got = append(got, m.Name)
		if h.Reading.Present() || h.Reading.Reason() == "" || h.Source != "" || h.Guarantee != "" {
			t.Errorf("%s of an empty sample: %s", m.Name, headline(h))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headlines (-table +got):\n%s", diff)
	}
}
