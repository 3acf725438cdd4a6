// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// What numbers are held to.
const (
	cpuSlack     = 0.020 // seconds
	cgroupShare  = 0.01
	treeShare    = 0.03
	meterShare   = 0.05 // what a process that reports for itself uses to exit is known from another one
	mib          = 1 << 20
	memorySlack  = 16 * mib // a Go program beside what it allocates, in each of a few processes
	pageSlack    = 4096
	storageSlack = 2 * mib // the file system's own blocks
)

// trueCPU returns the best knowledge of the CPU time: the meter's, where there is one, else what the workload has seen
// counted for its own cgroup, else the workload's own. They must agree.
func (r run) trueCPU(t *testing.T) float64 {
	t.Helper()
	own, all := r.truth.CPU.Total, 0.0
	switch {
	case r.meter != nil:
		metered := testkit.Value(r.meter.CPU())(t)
		all = metered.Seconds()
		if before := r.truth.CPU.BeforeMeter; before != nil {
			all += *before
		}
	case r.truth.CPU.Cgroup != nil:
		all = *r.truth.CPU.Cgroup
	default:
		return own
	}
	slack := cpuSlack + meterShare*all
	if os.Getenv("TACHO_GUEST") != "" {
		// An exit takes milliseconds under an emulator, and a process that reports for itself does not know of them.
		slack += 0.1 + 0.01*float64(r.truth.Processes)
	}
	if math.Abs(all-own) > slack {
		t.Errorf("the workload says %.4f s, the cgroup around it %.4f s", own, all)
	}
	return all
}

// checkCPU holds the CPU headline against the truth.
func (r run) checkCPU(t *testing.T) {
	t.Helper()
	l := headline(r.record, "cpu_seconds_total", procstats.Seconds)
	l.true = r.trueCPU(t)
	off := math.Abs(l.reported - l.true)
	fromCgroup := strings.HasPrefix(l.source, "cgroup_")
	switch {
	case math.IsNaN(l.reported):
		l.fault = "not measured: " + r.record.Headline["cpu_seconds_total"].Reason
	case r.mode.Placement == rig.None && fromCgroup:
		l.fault = "taken from a cgroup that was not asked for"
	case fromCgroup:
		l.bound = "1 % or 20 ms"
		slack := max(cpuSlack, cgroupShare*l.true)
		if r.meter == nil && r.truth.CPU.Cgroup == nil { // what the workload says of itself lacks its exits: more of them on a machine that is busy or stolen from
			l.bound = "3 % or 40 ms"
			slack = max(2*cpuSlack, treeShare*l.true)
		}
		if off > slack {
			l.fault = "too far off"
		}
	case r.mode.Placement == rig.Below:
		l.fault = "not taken from the cgroup: " + strings.Join(r.record.Notes, " ")
	default:
		l.bound = "3 % or 20 ms"
		if r.subject.loses {
			l.bound = "lower_bound with the reason"
		}
		l.fault = r.withoutCgroup(l, off)
	}
	l.hold(t)
}

// withoutCgroup says what is wrong with a CPU total that was counted from the processes.
func (r run) withoutCgroup(l line, off float64) string {
	near := off <= max(cpuSlack, treeShare*l.true)
	switch {
	case near && !r.subject.loses:
		return ""
	case l.reported > l.true+max(cpuSlack, treeShare*l.true):
		return "more than there was"
	case !r.subject.loses:
		return "too far off"
	case l.guarantee != procstats.LowerBound:
		return "time is lost and it is not labelled lower_bound"
	case r.record.Headline[l.what].Reason == "" && !mentions(r.record.Notes, "SIGCHLD"):
		return "lower_bound without the reason: that SIGCHLD is ignored"
	}
	return ""
}

func mentions(notes []string, word string) bool {
	return slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, word) })
}

// checkRows holds the sum of the rows against the total: in the record, and in every report.
func (r run) checkRows(t *testing.T) {
	t.Helper()
	p := r.record.Processes
	if p == nil || p.TotalCPUSeconds == nil || p.UnattributedCPUSeconds == nil {
		t.Error("the record has no sum of its processes")
		return
	}
	for _, row := range p.Rows {
		if _, ok := row.Measurements["process_cpu_seconds_total"].(float64); !ok {
			t.Errorf("process %d has no CPU time", row.PID)
		}
	}
	wrong := closing("rows", p)
	if total := r.record.Headline["cpu_seconds_total"].Value; total != nil && !same(*total, *p.TotalCPUSeconds) {
		t.Errorf("the processes add up to %.6f s, the headline says %.6f s", *p.TotalCPUSeconds, *total)
	}
	for i, report := range r.reports {
		more, known := reportSums(report)
		if !known {
			t.Errorf("report %d has no sum of its processes", i)
		}
		wrong = append(wrong, more...)
	}
	for _, w := range wrong {
		if w.kind != below0 {
			t.Errorf("%s: %s", w.what, w.text)
		}
	}
}

// exitedCPU is 0 where it is not known.
func exitedCPU(exited record.ProcessSum) float64 {
	if exited.CPUSeconds == nil {
		return 0
	}
	return *exited.CPUSeconds
}

func rowsCPU(rows []record.ProcessRow) (sum float64) {
	for _, row := range rows {
		used, _ := row.Measurements["process_cpu_seconds_total"].(float64)
		sum += used
	}
	return sum
}

// same allows for the rounding of sums.
func same(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// unattributed reports how much of the churn no row accounts for: next to nothing where every exit is recorded.
func unattributed(t *testing.T, r run) {
	p := r.record.Processes
	if p == nil || p.UnattributedCPUSeconds == nil || p.TotalCPUSeconds == nil {
		t.Error("the record does not say what is unattributed")
		return
	}
	line{
		what: "unattributed", unit: procstats.Seconds, reported: *p.UnattributedCPUSeconds, true: math.NaN(),
		source: fmt.Sprintf("%.1f %% of the total", 100**p.UnattributedCPUSeconds / *p.TotalCPUSeconds), bound: "to be told",
	}.hold(t)
	if c := r.record.Commands; c != nil && c.Reason == "" && math.Abs(*p.UnattributedCPUSeconds) > 0.01**p.TotalCPUSeconds {
		t.Errorf("unattributed %.4f s of %.4f s, although exits are recorded; %d records lost", *p.UnattributedCPUSeconds, *p.TotalCPUSeconds, c.LostRecords)
	}
}

// hundredRows holds the rows of a hundred small processes against the 4 ms that each of them used at least.
func hundredRows(t *testing.T, r run) {
	p := r.record.Processes
	if p == nil || p.Exited.CPUSeconds == nil {
		t.Error("the record does not say what the exited used")
		return
	}
	l := line{
		what: "rows + exited", unit: procstats.Seconds, reported: rowsCPU(p.Rows) + *p.Exited.CPUSeconds, true: 0.4,
		bound: "at least 100 x 4 ms", source: fmt.Sprintf("%d rows, %d exited", len(p.Rows), p.Exited.Processes),
	}
	if l.reported < l.true {
		l.fault = "a hundred processes that used 4 ms each were not seen with it"
	}
	l.hold(t)
}

// oneReport checks that a task shorter than the interval has one report.
func oneReport(t *testing.T, r run) {
	l := line{what: "reports", reported: float64(len(r.reports)), true: 1, bound: "1"}
	if len(r.reports) != 1 {
		l.fault = "a run shorter than its interval has one line"
	}
	l.hold(t)
}
