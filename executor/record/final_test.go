// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/procstats"
)

// TestProcessesOfTallyStates holds that a row counts the samples in which each state was seen, and that a process whose
// state was not read has none.
func TestProcessesOfTallyStates(t *testing.T) {
	var w procstats.Window
	var last *procstats.Sample
	for n, states := range [][2]string{{"R", ""}, {"S", ""}, {"S", ""}, {"D", ""}, {"", ""}} {
		at := time.Duration(n+1) * time.Second
		last = &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(1000, 0).Add(at)}}
		last.Sources[procstats.SourceTree] = last.Stamp
		for pid, state := range states {
			row := last.AddProcess(procstats.ProcessID{PID: pid + 1})
			row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, float64(n)))
			if state != "" {
				row.Readings.Put(procstats.TextReading(procstats.ProcessState, state))
			}
		}
		w.Add(last)
	}
	var got []map[string]int64
	for _, row := range ProcessesOf(&w, last, true).Rows {
		got = append(got, row.States)
	}
	if diff := cmp.Diff([]map[string]int64{{"D": 1, "R": 1, "S": 2}, nil}, got); diff != "" {
		t.Error(diff)
	}
}
