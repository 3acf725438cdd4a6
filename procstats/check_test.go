// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

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
	testkit.Diff(t, "result", []procstats.Note{want}, cpu.Notes)
	var read map[string]struct{ Notes []procstats.Note }
	testkit.Must(t, json.Unmarshal(procstats.AppendHeadlinesJSON(nil, []procstats.HeadlineValue{cpu}), &read))
	testkit.Diff(t, "result", cpu.Notes, read["cpu_seconds_total"].Notes)
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

// TestNetworkUncounted holds that no packets are only known of an ended task that had no sockets from elsewhere, and of
// whose processes none has left the cgroup that counts them.
func TestNetworkUncounted(t *testing.T) {
	for _, test := range []struct {
		name                    string
		sent, uncounted, left   float64
		want                    procstats.Guarantee
		outsideOther, endedElse float64
	}{
		{"nothing", 0, 0, 0, procstats.Exact, 0, 0},
		{"a socket from elsewhere", 0, 1, 0, "", 0, 0},
		{"a process that has left", 0, 0, 1, "", 0, 0},
		{"one that has ended elsewhere", 0, 0, 0, "", 0, 1},
		{"one that has left groups of version 1 only", 0, 0, 0, procstats.Exact, 1, 0},
		{"some packets, and one that has left", 1000, 0, 1, procstats.LowerBound, 0, 0},
	} {
		s := sampleAt(at(2), number(procstats.SkbSent, test.sent),
			number(procstats.SkbUncountedSockets, test.uncounted), number(procstats.TreeLeftPressure, test.left),
			number(procstats.TreeLeftCPU, test.outsideOther), number(procstats.ExitsLeft, test.endedElse))
		for _, h := range procstats.Headlines(s, procstats.History{Ended: true}) {
			if h.ID == procstats.HeadlineNetworkSent && (h.Guarantee != test.want || h.Reading.Present() != (test.want != "")) {
				t.Errorf("%s: %+v, want it %q", test.name, h, test.want)
			}
		}
	}
}
