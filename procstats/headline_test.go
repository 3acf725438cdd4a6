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
			name: "cgroup v2",
			sample: sampleAt(at(2), append(cgroup, number(procstats.CgroupMemorySlabReclaimable, 50), number(procstats.CgroupMemoryPeak, 2000), number(procstats.CgroupIORead, 5), number(procstats.TreeIORead, 6), number(procstats.CgroupIOWrite, 0),
				number(procstats.TreeIOWrite, 0), number(procstats.TreeIOCancelledWrite, 0), number(procstats.CgroupMemoryFileDirty, 0), number(procstats.CgroupMemoryFileWriteback, 0))...),
			history: procstats.History{
				Previous: sampleAt(at(0), number(procstats.CgroupCPUUsage, 9), number(procstats.TreeCPU, 11)),
				Elapsed:  24 * time.Second, Largest: largest(number(procstats.TreeRSS, 90)),
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
		}, {
			name: "cgroup v1 has no slab and block counters that miss writeback",
			sample: sampleAt(at(2), append(cgroup,
				absent(procstats.CgroupMemorySlabReclaimable, "v2 only"), absent(procstats.CgroupIORead, "v2 only"),
				number(procstats.CgroupBlkioRead, 7), number(procstats.TreeIOWrite, 8), number(procstats.TreeIOStored, 0),
				number(procstats.CgroupBlkioWrite, 1), number(procstats.CgroupMemoryFileDirty, 3), number(procstats.CgroupMemoryFileWriteback, 4))...),
			want: map[procstats.ID]string{
				procstats.HeadlineMemory:    "500 upper_bound cgroup_memory_current_bytes",
				procstats.HeadlineIORead:    "7 lower_bound cgroup_blkio_read_bytes_total",
				procstats.HeadlineIOWrite:   "1 lower_bound cgroup_blkio_write_bytes_total",
				procstats.HeadlineIOHanded:  "8 lower_bound tree_io_write_bytes_total",
				procstats.HeadlineIOPending: "7 sampled cgroup_memory_file_dirty_bytes",
				procstats.HeadlineCores:     "absent: a rate needs an earlier sample",
			},
		}, {
			name: "memory.stat lags behind memory.current",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100), number(procstats.CgroupMemoryActiveFile, 0),
				number(procstats.CgroupMemoryInactiveFile, 90), number(procstats.CgroupMemorySlabReclaimable, 20)),
			want: map[procstats.ID]string{procstats.HeadlineMemory: "0 exact cgroup_memory_current_bytes"},
		}, {
			name: "a cgroup without its memory.stat",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100),
				absent(procstats.CgroupMemoryActiveFile, "gone"), number(procstats.TreeRSS, 80), number(procstats.TreeMemory, 60)),
			want: map[procstats.ID]string{
				procstats.HeadlineMemory:        "60 lower_bound tree_memory_bytes",
				procstats.HeadlineMemoryCharged: "100 exact cgroup_memory_current_bytes",
			},
		}, {
			name: "no cgroup",
			sample: sampleAt(at(4), absent(procstats.CgroupCPUUsage, "the task has no cgroup"), number(procstats.TreeCPU, 6),
				absent(procstats.CgroupMemoryCurrent, "the task has no cgroup"), absent(procstats.CgroupMemoryPeak, "the task has no cgroup"),
				number(procstats.SmapsPSS, 70), number(procstats.TreeRSS, 80), number(procstats.RusageMaxRSS, 101), number(procstats.RusageInblock, 512),
				number(procstats.TreeMemory, 60), number(procstats.RusagePeakRSS, 99)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.TreeCPU, 5)), Largest: largest(number(procstats.TreeMemory, 90))},
			want: map[procstats.ID]string{
				procstats.HeadlineCPU:           "6 lower_bound tree_cpu_seconds_total",
				procstats.HeadlineCores:         "0.25 sampled tree_cpu_seconds_total",
				procstats.HeadlineCoresAverage:  "absent: the wall time of the run is not known",
				procstats.HeadlineMemory:        "60 lower_bound tree_memory_bytes",
				procstats.HeadlineMemoryCharged: "absent: cgroup_memory_current_bytes: the task has no cgroup",
				procstats.HeadlineMemoryPeak:    "99 lower_bound rusage_peak_rss_bytes",
				procstats.HeadlineIORead:        "512 lower_bound rusage_inblock_bytes_total",
				procstats.HeadlineIOWrite:       "absent: nothing it can be taken from is selected",
			},
		}, {
			name:    "samples above every single process",
			sample:  sampleAt(at(0), number(procstats.RusagePeakRSS, 99)),
			history: procstats.History{Largest: largest(number(procstats.TreeMemory, 120), number(procstats.TreeRSS, 180))},
			want:    map[procstats.ID]string{procstats.HeadlineMemoryPeak: "120 lower_bound tree_memory_bytes"},
		}, {
			name:   "what a child inherits from its launcher is not the task's",
			sample: sampleAt(at(0), number(procstats.RusageMaxRSS, 99), absent(procstats.RusagePeakRSS, "inherited")),
			want:   map[procstats.ID]string{procstats.HeadlineMemoryPeak: "absent: rusage_peak_rss_bytes: inherited"},
		}, {
			name:    "a cgroup without a peak",
			sample:  sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100), number(procstats.RusagePeakRSS, 99)),
			history: procstats.History{Largest: largest(number(procstats.CgroupMemoryCurrent, 120))},
			want:    map[procstats.ID]string{procstats.HeadlineMemoryPeak: "120 lower_bound cgroup_memory_current_bytes"},
		}, {
			name: "huge pages beside a cgroup, counted",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100), number(procstats.CgroupMemoryActiveFile, 10),
				number(procstats.CgroupMemoryInactiveFile, 10), number(procstats.CgroupMemorySlabReclaimable, 0),
				number(procstats.HugetlbCgroupCurrent, 50), number(procstats.HugetlbUncharged, 50)),
			want: map[procstats.ID]string{
				procstats.HeadlineMemory: "130 exact cgroup_memory_current_bytes", procstats.HeadlineHugetlb: "50 exact hugetlb_cgroup_current_bytes",
			},
		}, {
			name: "huge pages that the cgroup's memory has",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100), number(procstats.CgroupMemoryActiveFile, 10),
				number(procstats.CgroupMemoryInactiveFile, 10), number(procstats.CgroupMemorySlabReclaimable, 0),
				number(procstats.HugetlbMapped, 50), number(procstats.HugetlbUncharged, 0)),
			want: map[procstats.ID]string{
				procstats.HeadlineMemory: "80 exact cgroup_memory_current_bytes", procstats.HeadlineHugetlb: "50 lower_bound hugetlb_mapped_bytes",
			},
		}, {
			name: "huge pages beside a cgroup, as far as they are mapped",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100), number(procstats.CgroupMemoryActiveFile, 10),
				number(procstats.CgroupMemoryInactiveFile, 10), number(procstats.CgroupMemorySlabReclaimable, 0), number(procstats.HugetlbUncharged, 50)),
			want: map[procstats.ID]string{procstats.HeadlineMemory: "130 lower_bound cgroup_memory_current_bytes"},
		}, {
			name: "beside a v1 cgroup, of which there is an upper bound only",
			sample: sampleAt(at(0), number(procstats.CgroupMemoryCurrent, 100), number(procstats.CgroupMemoryActiveFile, 10),
				number(procstats.CgroupMemoryInactiveFile, 10), number(procstats.CgroupMemoryAnon, 60), number(procstats.CgroupMemoryShmem, 5),
				number(procstats.HugetlbUncharged, 50)),
			want: map[procstats.ID]string{procstats.HeadlineMemory: "115 lower_bound cgroup_memory_current_bytes"},
		}, {
			name:   "huge pages and processes",
			sample: sampleAt(at(0), number(procstats.TreeMemory, 60), number(procstats.HugetlbUncharged, 50), number(procstats.TreeSwap, 7)),
			want: map[procstats.ID]string{
				procstats.HeadlineMemory: "110 lower_bound tree_memory_bytes", procstats.HeadlineSwap: "7 lower_bound tree_swap_bytes",
			},
		}, {
			name:   "never sampled",
			sample: sampleAt(at(0), number(procstats.RusageCPU, 1), number(procstats.RusagePeakRSS, 99)),
			want: map[procstats.ID]string{
				procstats.HeadlineCPU:        "1 lower_bound rusage_cpu_seconds_total",
				procstats.HeadlineMemory:     "absent: nothing it can be taken from is selected",
				procstats.HeadlineMemoryPeak: "99 lower_bound rusage_peak_rss_bytes",
			},
		}, {
			name:    "a counter that went down",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 1)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.CgroupCPUUsage, 2))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "absent: the counter went down: its source started again"},
		}, {
			name:    "the same sample twice",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 1)),
			history: procstats.History{Previous: sampleAt(at(1), number(procstats.CgroupCPUUsage, 1))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "absent: only one reading in the window"},
		}, {
			name:    "a sample of another boot",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 3)),
			history: procstats.History{Previous: sampleAt(at(2), number(procstats.CgroupCPUUsage, 2))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "absent: the clock did not advance between the readings"},
		}, {
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
		}, {
			name:    "a cgroup that came later: no rate across two sources",
			sample:  sampleAt(at(1), number(procstats.CgroupCPUUsage, 5), number(procstats.TreeCPU, 3)),
			history: procstats.History{Previous: sampleAt(at(0), absent(procstats.CgroupCPUUsage, "gone"), number(procstats.TreeCPU, 1))},
			want:    map[procstats.ID]string{procstats.HeadlineCores: "2 sampled tree_cpu_seconds_total"},
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
		seldom := m.ID == procstats.HeadlineSwap || m.ID == procstats.HeadlineHugetlb || m.ID == procstats.HeadlineProcessesAge // listed if they are not 0
		if m.Scope == procstats.HeadlineScope && !seldom {
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

// largest are readings that were the largest of all samples.
func largest(readings ...procstats.Reading) (l procstats.Largest) {
	l.Add(sampleAt(at(0), readings...))
	return l
}

// TestShortRun holds that averages over an ended run are exact only where the delay of noticing its end is no part of
// it.
func TestShortRun(t *testing.T) {
	sample := func(at time.Duration, cpu float64) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(0, int64(at))}}
		s.SetRead(procstats.SourceCgroup, s.Stamp)
		s.SetNumber(procstats.CgroupCPUUsage, cpu)
		return s
	}
	for _, test := range []struct {
		elapsed time.Duration
		ended   bool
		want    procstats.Guarantee
	}{
		{130 * time.Millisecond, true, procstats.LowerBound},
		{130 * time.Millisecond, false, procstats.Exact},
		{9 * time.Second, true, procstats.LowerBound},
		{10 * time.Second, true, procstats.Exact},
	} {
		history := procstats.History{Previous: sample(0, 0), Elapsed: test.elapsed, Ended: test.ended}
		for _, h := range procstats.Headlines(sample(test.elapsed, test.elapsed.Seconds()/2), history) {
			if h.ID != procstats.HeadlineCores && h.ID != procstats.HeadlineCoresAverage {
				continue
			}
			if value, _ := h.Reading.Number(); h.Guarantee != test.want || value != 0.5 {
				t.Errorf("%s after %s, ended %t: %v %s, want 0.5 %s", h.ID, test.elapsed, test.ended, value, h.Guarantee, test.want)
			}
		}
	}
}

// TestCoresNotOfReapedProcesses holds that processes that were reaped do not count as if they had run since the last
// sample.
func TestCoresNotOfReapedProcesses(t *testing.T) {
	h := procstats.History{Previous: sampleAt(at(0), number(procstats.RusageCPU, 1))}
	for _, v := range procstats.Headlines(sampleAt(at(2), number(procstats.RusageCPU, 40)), h) {
		if v.ID == procstats.HeadlineCores && v.Reading.Present() {
			t.Errorf("cpu_cores is %s", headline(v))
		}
	}
}
