// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/procstats"
)

// TestChecks holds each rule against readings that contradict each other, and against those next to them that do not.
func TestChecks(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name    string
		sample  *procstats.Sample
		history procstats.History
		of      procstats.ID
		want    string
		rules   []string
	}{
		{
			name:   "the reaped processes used more than their cgroup",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.0013), number(procstats.RusageCPU, 0.48)),
			of:     procstats.HeadlineCPU, want: "0.48 lower_bound rusage_cpu_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name: "the live and the reaped ones used more",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 1), number(procstats.TreeCPU, 2),
				number(procstats.RusageCPU, 1.5)),
			of: procstats.HeadlineCPU, want: "2 lower_bound tree_cpu_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name:   "by less than 20 ms",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.1), number(procstats.RusageCPU, 0.119)),
			of:     procstats.HeadlineCPU, want: "0.1 exact cgroup_cpu_usage_seconds_total",
		}, {
			name:   "by less than 1 %",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 100), number(procstats.RusageCPU, 100.9)),
			of:     procstats.HeadlineCPU, want: "100 exact cgroup_cpu_usage_seconds_total",
		}, {
			name: "a process left, and the cgroup has counted more than is known of the processes",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 5), number(procstats.RusageCPU, 4),
				number(procstats.TreeLeftCPU, 1)),
			of: procstats.HeadlineCPU, want: "5 lower_bound cgroup_cpu_usage_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name: "a process left and used little since",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 5), number(procstats.TreeCPU, 5.01),
				number(procstats.TreeLeftCPU, 1)),
			of: procstats.HeadlineCPU, want: "5.01 lower_bound tree_cpu_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name:    "the average of the whole run",
			sample:  sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.RusageCPU, 4)),
			history: procstats.History{Elapsed: 2 * time.Second},
			of:      procstats.HeadlineCoresAverage, want: "2 lower_bound rusage_cpu_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name:    "a rate that the processes outside add to",
			sample:  outsideSample(at(2), 1.5, 4, 2),
			history: procstats.History{Previous: outsideSample(at(0), 0.5, 1, 0.5)},
			of:      procstats.HeadlineCores, want: "1.25 lower_bound tree_cpu_seconds_total", rules: []string{"cores_above_cgroup"},
		}, {
			name:    "a rate with a process that was found late",
			sample:  outsideSample(at(2), 1.5, 9, 0.5),
			history: procstats.History{Previous: outsideSample(at(0), 0.5, 1, 0.5)},
			of:      procstats.HeadlineCores, want: "0.5 lower_bound cgroup_cpu_usage_seconds_total", rules: []string{"cores_above_cgroup"},
		}, {
			name:    "a rate with a process that comes and goes",
			sample:  outsideSample(at(2), 2.5, 4, 2.5),
			history: procstats.History{Previous: outsideSample(at(0), 0.5, 1.5, 0.5)},
			of:      procstats.HeadlineCores, want: "1.25 lower_bound tree_cpu_seconds_total", rules: []string{"cores_above_cgroup"},
		}, {
			name:    "a rate without what was used before",
			sample:  sampleAt(at(2), number(procstats.TreeCPU, 9), number(procstats.TreeCPULate, 6.5)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.TreeCPU, 1), number(procstats.TreeCPULate, 0.5))},
			of:      procstats.HeadlineCores, want: "1 sampled tree_cpu_seconds_total",
		}, {
			name:   "the same over a window",
			sample: sampleAt(at(2), number(procstats.TreeCPU, 9), number(procstats.TreeCPULate, 6.5)),
			history: procstats.History{Window: windowOf(
				sampleAt(at(0), number(procstats.TreeCPU, 1), number(procstats.TreeCPULate, 0.5)),
				sampleAt(at(2), number(procstats.TreeCPU, 9), number(procstats.TreeCPULate, 6.5)))},
			of: procstats.HeadlineCores, want: "1 sampled tree_cpu_seconds_total",
		}, {
			name:    "a rate of more than all CPUs",
			sample:  sampleAt(at(2), number(procstats.TreeCPU, 9)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.TreeCPU, 1)), CPUs: 2},
			of:      procstats.HeadlineCores, want: "2 sampled tree_cpu_seconds_total", rules: []string{"cores_above_cpus"},
		}, {
			name:    "a rate of little more than all CPUs",
			sample:  sampleAt(at(2), number(procstats.CgroupCPUUsage, 5.02)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.CgroupCPUUsage, 1)), CPUs: 2},
			of:      procstats.HeadlineCores, want: "2 exact cgroup_cpu_usage_seconds_total",
		}, {
			name: "the clocks of the processes have more",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.TreeCPULive, 0.4),
				number(procstats.TreeCPUExited, 0.103)),
			of: procstats.HeadlineCPU, want: "0.503 lower_bound tree_cpu_live_seconds", rules: []string{"cpu_above_cgroup"},
		}, {
			name: "the clocks of the processes have little more",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.TreeCPULive, 0.4),
				number(procstats.TreeCPUExited, 0.101)),
			of: procstats.HeadlineCPU, want: "0.5 exact cgroup_cpu_usage_seconds_total",
		}, {
			name: "the processes that ended have more, and one was outside when it ended",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.RusageOutside, 1),
				number(procstats.RusageCPU, 0.505), number(procstats.ExitsCPU, 0.7)),
			of: procstats.HeadlineCPU, want: "0.7 lower_bound exits_cpu_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name: "the processes that ended have more, and more was reaped",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.RusageCPU, 0.6),
				number(procstats.ExitsCPU, 0.7)),
			of: procstats.HeadlineCPU, want: "0.7 lower_bound exits_cpu_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name:   "a process that nothing else has seen did not end in the cgroup",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.ExitsCPU, 0.4), number(procstats.ExitsLeft, 1)),
			of:     procstats.HeadlineCPU, want: "0.5 lower_bound cgroup_cpu_usage_seconds_total", rules: []string{"cpu_above_cgroup"},
		}, {
			name:   "the processes that ended have more, and none was seen outside",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.ExitsCPU, 0.7)),
			of:     procstats.HeadlineCPU, want: "0.5 lower_bound cgroup_cpu_usage_seconds_total", rules: []string{"cpu_below_exits"},
		}, {
			name:   "the processes that ended have little more",
			sample: sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.ExitsCPU, 0.519)),
			of:     procstats.HeadlineCPU, want: "0.5 exact cgroup_cpu_usage_seconds_total",
		}, {
			name:   "a peak of a cgroup outside which a process ended",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryPeak, mib), number(procstats.RusageOutside, 1)),
			of:     procstats.HeadlineMemoryPeak, want: "1048576 lower_bound cgroup_memory_peak_bytes", rules: []string{"memory_left_cgroup"},
		}, {
			name: "a peak of a cgroup of version 1 without CPU time, which a process can have left unseen",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryPeak, mib), number(procstats.TreeLeftMemory, 0),
				procstats.AbsentReading(procstats.CgroupCPUUsage, "no"), procstats.AbsentReading(procstats.RusageOutside, "no")),
			of: procstats.HeadlineMemoryPeak, want: "1048576 lower_bound cgroup_memory_peak_bytes", rules: []string{"memory_left_cgroup"},
		}, {
			name: "a peak beside which version 2 says where processes ended",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryPeak, mib), number(procstats.RusageOutside, 0),
				procstats.AbsentReading(procstats.CgroupCPUUsage, "no")),
			of: procstats.HeadlineMemoryPeak, want: "1048576 exact cgroup_memory_peak_bytes",
		}, {
			name:    "a rate that nothing else has",
			sample:  sampleAt(at(2), number(procstats.CgroupCPUUsage, 2), number(procstats.RusageCPU, 4)),
			history: procstats.History{Previous: sampleAt(at(0), number(procstats.CgroupCPUUsage, 1), number(procstats.RusageCPU, 0))},
			of:      procstats.HeadlineCores, want: "0.5 lower_bound cgroup_cpu_usage_seconds_total", rules: []string{"cores_above_cgroup"},
		}, {
			name:   "a peak of a cgroup that a process left",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryPeak, mib), number(procstats.TreeLeftMemory, 1)),
			of:     procstats.HeadlineMemoryPeak, want: "1048576 lower_bound cgroup_memory_peak_bytes", rules: []string{"memory_left_cgroup"},
		}, {
			name: "a peak of a cgroup that a process left that used hardly any CPU time",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryPeak, mib), number(procstats.CgroupCPUUsage, 0.5),
				number(procstats.RusageCPU, 0.502)),
			of: procstats.HeadlineMemoryPeak, want: "1048576 lower_bound cgroup_memory_peak_bytes", rules: []string{"memory_left_cgroup"},
		}, {
			name: "a peak of a cgroup that the reaped processes left",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryPeak, mib), number(procstats.CgroupCPUUsage, 0.001),
				number(procstats.RusageCPU, 0.5)),
			of: procstats.HeadlineMemoryPeak, want: "1048576 lower_bound cgroup_memory_peak_bytes", rules: []string{"memory_left_cgroup"},
		}, {
			name: "memory of a v1 cgroup that a process left",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryCurrent, 900), number(procstats.CgroupMemoryActiveFile, 100),
				number(procstats.CgroupMemoryInactiveFile, 100), number(procstats.CgroupMemoryAnon, 600), number(procstats.TreeLeftMemory, 1)),
			of: procstats.HeadlineMemory, want: "600 lower_bound cgroup_memory_anon_bytes", rules: []string{"memory_left_cgroup"},
		}, {
			name:   "I/O of a cgroup that a process left",
			sample: sampleAt(at(2), number(procstats.CgroupIORead, 7), number(procstats.TreeLeftIO, 1)),
			of:     procstats.HeadlineIORead, want: "7 lower_bound cgroup_io_read_bytes_total", rules: []string{"io_left_cgroup"},
		}, {
			name:    "a peak that was reset",
			sample:  sampleAt(at(2), number(procstats.CgroupMemoryPeak, 7*mib)),
			history: procstats.History{Largest: largest(number(procstats.CgroupMemoryCurrent, 157*mib))},
			of:      procstats.HeadlineMemoryPeak, want: "164626432 lower_bound cgroup_memory_current_bytes",
			rules: []string{"peak_below_sampled"},
		}, {
			name:   "the processes read more than their cgroup",
			sample: sampleAt(at(2), number(procstats.CgroupIORead, 4*mib), number(procstats.TreeIORead, 100*mib)),
			of:     procstats.HeadlineIORead, want: "104857600 lower_bound tree_io_read_bytes_total", rules: []string{"read_above_cgroup"},
		}, {
			name:   "a page was read, and the cgroup has nothing",
			sample: sampleAt(at(2), number(procstats.CgroupIORead, 0), number(procstats.RusageInblock, 4096)),
			of:     procstats.HeadlineIORead, want: "4096 lower_bound rusage_inblock_bytes_total", rules: []string{"read_above_cgroup"},
		}, {
			name:   "they read more by what is read between the two",
			sample: sampleAt(at(2), number(procstats.CgroupIORead, 100*mib), number(procstats.TreeIORead, 101*mib)),
			of:     procstats.HeadlineIORead, want: "104857600 exact cgroup_io_read_bytes_total",
		}, {
			name:   "more has reached storage than was charged to the cgroup",
			sample: sampleAt(at(2), number(procstats.CgroupIOWrite, 4*mib), number(procstats.TreeIOStored, 5*mib)),
			of:     procstats.HeadlineIOWrite, want: "5242880 lower_bound tree_io_stored_bytes_total", rules: []string{"write_above_cgroup"},
		}, {
			name:   "the bound of it is lower",
			sample: sampleAt(at(2), number(procstats.CgroupIOWrite, 5*mib), number(procstats.TreeIOStored, 4*mib)),
			of:     procstats.HeadlineIOWrite, want: "5242880 sampled cgroup_io_write_bytes_total",
		}, {
			name:    "a peak and what several CPUs charged at once",
			sample:  sampleAt(at(2), number(procstats.CgroupMemoryPeak, 7*mib)),
			history: procstats.History{Largest: largest(number(procstats.CgroupMemoryCurrent, 8*mib))},
			of:      procstats.HeadlineMemoryPeak, want: "7340032 exact cgroup_memory_peak_bytes",
		}, {
			name: "huge pages that the cgroup's peak lacks, above it",
			sample: sampleAt(at(2), number(procstats.CgroupMemoryPeak, mib/2), number(procstats.CgroupMemoryCurrent, mib/2),
				number(procstats.HugetlbUncharged, 100*mib)),
			of: procstats.HeadlineMemoryPeak, want: "104857600 lower_bound hugetlb_uncharged_bytes", rules: []string{"peak_without_hugetlb"},
		}, {
			name:    "below it, some time before",
			sample:  sampleAt(at(2), number(procstats.CgroupMemoryPeak, 7*mib), number(procstats.HugetlbUncharged, 0)),
			history: procstats.History{Largest: largest(number(procstats.HugetlbUncharged, 2*mib))},
			of:      procstats.HeadlineMemoryPeak, want: "7340032 lower_bound cgroup_memory_peak_bytes", rules: []string{"peak_without_hugetlb"},
		}, {
			name:    "no huge pages",
			sample:  sampleAt(at(2), number(procstats.CgroupMemoryPeak, 7*mib), number(procstats.HugetlbUncharged, 0)),
			history: procstats.History{Largest: largest(number(procstats.HugetlbUncharged, 0))},
			of:      procstats.HeadlineMemoryPeak, want: "7340032 exact cgroup_memory_peak_bytes",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, h := range procstats.Headlines(test.sample, test.history) {
				if total := procstats.CPUTotal(test.sample); h.ID == procstats.HeadlineCPU && headline(total) != headline(h) {
					t.Errorf("the total is %s, the headline %s", headline(total), headline(h))
				}
				if h.ID != test.of {
					continue
				}
				if got := headline(h); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
				var rules []string
				for _, n := range h.Notes {
					rules = append(rules, n.Rule)
				}
				if diff := cmp.Diff(test.rules, rules); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestInformed holds that a lower bound of 0 is not known, unless it is to be seen growing.
func TestInformed(t *testing.T) {
	nothing := sampleAt(at(2), number(procstats.TreeMemory, 0), number(procstats.TreeIOWrite, 0), number(procstats.TreeCPU, 0))
	for _, test := range []struct {
		of    procstats.ID
		ended bool
		known bool
	}{
		{procstats.HeadlineMemory, false, false},
		{procstats.HeadlineMemory, true, false},
		{procstats.HeadlineMemoryPeak, false, false},
		{procstats.HeadlineMemoryPeak, true, false},
		{procstats.HeadlineIOHanded, false, true},
		{procstats.HeadlineIOHanded, true, false},
		{procstats.HeadlineCPU, false, true},
		{procstats.HeadlineCPU, true, false},
	} {
		history := procstats.History{Largest: largest(number(procstats.TreeMemory, 0)), Elapsed: time.Minute, Ended: test.ended}
		for _, h := range procstats.Headlines(nothing, history) {
			switch {
			case h.ID != test.of:
			case h.Reading.Present() != test.known:
				t.Errorf("%s, ended %v: %s, want known %v", test.of, test.ended, headline(h), test.known)
			case !test.known && h.Reading.Reason() == "":
				t.Errorf("%s, ended %v: it has no reason", test.of, test.ended)
			}
		}
	}
}

// TestNote holds the text of a note, and that both ways to JSON say the same.
func TestNote(t *testing.T) {
	s := sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.0013), number(procstats.RusageCPU, 0.48))
	cpu := procstats.Headlines(s, procstats.History{})[0]
	want := procstats.Note{
		Rule: "cpu_above_cgroup", Source: "cgroup_cpu_usage_seconds_total", Value: 0.0013,
		OtherSource: "rusage_cpu_seconds_total", OtherValue: 0.48, Cause: "processes of the task ran outside its cgroup",
		Text: "cpu_seconds_total is 1.3 ms by cgroup_cpu_usage_seconds_total, but rusage_cpu_seconds_total is 480 ms: " +
			"processes of the task ran outside its cgroup",
	}
	if diff := cmp.Diff([]procstats.Note{want}, cpu.Notes); diff != "" {
		t.Error(diff)
	}
	var read map[string]struct{ Notes []procstats.Note }
	if err := json.Unmarshal(procstats.AppendHeadlinesJSON(nil, []procstats.HeadlineValue{cpu}), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cpu.Notes, read["cpu_seconds_total"].Notes); diff != "" {
		t.Error(diff)
	}
}

// outsideSample is one of a task with processes outside its cgroup.
func outsideSample(stamp procstats.Stamp, cgroup, tree, outside float64) *procstats.Sample {
	return sampleAt(stamp, number(procstats.CgroupCPUUsage, cgroup), number(procstats.TreeCPU, tree), number(procstats.TreeOutsideCPU, outside))
}

// TestGuarantees holds that an account is called exact only while no headline taken from it was contradicted.
func TestGuarantees(t *testing.T) {
	for _, test := range []struct {
		reaped float64
		want   procstats.Guarantee
		left   float64
		stall  procstats.Guarantee
	}{{0.5, procstats.Exact, 0, procstats.Exact}, {4, procstats.LowerBound, 1, procstats.Sampled}} {
		s := sampleAt(at(2), number(procstats.CgroupCPUUsage, 0.5), number(procstats.RusageCPU, test.reaped),
			number(procstats.CgroupCPUUser, 0.3), procstats.AbsentReading(procstats.CgroupMemoryPeak, "no"),
			number(procstats.TreeLeftPressure, test.left), number(procstats.PSICPUSome, 1))
		want := map[string]procstats.Guarantee{
			procstats.CgroupCPUUsage.String(): test.want, procstats.RusageCPU.String(): procstats.LowerBound,
			procstats.CgroupCPUUser.String(): procstats.Sampled, procstats.PSICPUSome.String(): test.stall,
			procstats.TreeLeftPressure.String(): procstats.LowerBound,
		}
		if diff := cmp.Diff(want, procstats.Guarantees(s, procstats.Headlines(s, procstats.History{}))); diff != "" {
			t.Errorf("reaped processes used %v s: (-want +got)\n%s", test.reaped, diff)
		}
	}
}
