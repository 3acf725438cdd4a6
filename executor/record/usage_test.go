// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"math"
	"testing"

	"github.com/tachograph/tacho/procstats"
)

// TestUsageSumCloses checks that rows, exited and unattributed are the total, whatever has no row.
func TestUsageSumCloses(t *testing.T) {
	const total, exited, unattributed = 1.0, 0.2, 0.1
	tests := []struct {
		name    string
		rows    []float64
		omitted int
		since   float64 // used since the rows were read
		want    float64
	}{
		{name: "each process has a row", rows: []float64{0.3, 0.4}, want: unattributed},
		{name: "one has none", rows: []float64{0.4}, omitted: 1, want: unattributed + 0.3},
		{name: "no process is alive", want: unattributed},
		{name: "the rows are older than the total", rows: []float64{0.3, 0.4}, since: 5, want: unattributed},
		{name: "older, and one has none", rows: []float64{0.4}, omitted: 1, since: 5, want: unattributed + 0.3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &procstats.Sample{Omitted: test.omitted}
			s.SetNumber(procstats.CgroupCPUUsage, total+test.since)
			s.SetNumber(procstats.TreeCPUExited, exited)
			if test.since > 0 {
				s.SetNumber(procstats.TreeCPUAtRows, total)
			}
			s.SetNumber(procstats.TreeCPUUnattributed, unattributed)
			for i, cpu := range test.rows {
				s.AddProcess(procstats.ProcessID{PID: 100 + i, Start: 1}).Readings.Put(procstats.NumberReading(procstats.ProcessCPU, cpu))
			}
			w := &procstats.Window{}
			w.Add(s)
			p := NewUsage(w, s, procstats.Selection{}, 0).Processes
			if p == nil || p.UnattributedCPUSeconds == nil || math.Abs(*p.UnattributedCPUSeconds-test.want) > 1e-9 {
				t.Fatalf("unattributed is not %g s: %+v", test.want, p)
			}
			sum := *p.UnattributedCPUSeconds + *p.Exited.CPUSeconds
			for _, row := range p.Rows {
				sum += *row.Measurements["process_cpu_seconds_total"].Last
			}
			if math.Abs(sum-*p.TotalCPUSeconds) > 1e-9 && len(p.Rows) > 0 { // else the sample does not close itself
				t.Errorf("rows, exited and unattributed are %g s of %g", sum, *p.TotalCPUSeconds)
			}
		})
	}
}

// TestUsageNamesTheLargest holds that a line is bounded however many processes there are, and adds up all the same.
func TestUsageNamesTheLargest(t *testing.T) {
	const count = 1000
	s := &procstats.Sample{}
	total := 0.0
	for i := range count {
		cpu := float64(i*7%count) / 10
		total += cpu
		s.AddProcess(procstats.ProcessID{PID: 100 + i, Start: 1}).Readings.Put(procstats.NumberReading(procstats.ProcessCPU, cpu))
	}
	s.SetNumber(procstats.CgroupCPUUsage, total)
	w := &procstats.Window{}
	w.Add(s)
	p := NewUsage(w, s, procstats.Selection{}, 0).Processes
	if len(p.Rows) != mostUsageRows || p.Omitted != count-mostUsageRows {
		t.Fatalf("%d rows, %d omitted", len(p.Rows), p.Omitted)
	}
	sum := *p.UnattributedCPUSeconds
	for _, row := range p.Rows {
		last := *row.Measurements["process_cpu_seconds_total"].Last
		if sum += last; last < float64(count-mostUsageRows)/10 {
			t.Errorf("process %d with %g s is not one of the largest", row.PID, last)
		}
	}
	if math.Abs(sum-total) > 1e-6 {
		t.Errorf("rows and unattributed come to %g s of %g", sum, total)
	}
}
