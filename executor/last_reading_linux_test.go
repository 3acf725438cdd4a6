// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// TestReadingOfNobody holds that a sample of a task without a process is not its last one.
func TestReadingOfNobody(t *testing.T) {
	sample := func(mono time.Duration, processes float64) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: mono}}
		s.SetNumber(procstats.TreeProcesses, processes)
		return s
	}
	r := &recorder{report: time.Hour, reportEnds: time.Hour}
	first, second := sample(time.Second, 2), sample(2*time.Second, 1)
	for _, s := range []*procstats.Sample{first, second, sample(3*time.Second, 0)} {
		r.add(s)
	}
	if r.last != second || r.whole.Samples() != 2 {
		t.Errorf("last %v, of %d samples", r.last, r.whole.Samples())
	}
	var read recent
	for _, s := range []*procstats.Sample{first, second, sample(3*time.Second, 0)} {
		s.Processes = make([]procstats.ProcessRow, 1)
		read.add(s)
	}
	if read.last.Mono != second.Mono || read.before.Mono != first.Mono || len(read.last.Processes) > 0 || len(second.Processes) != 1 {
		t.Errorf("last %v, before %v", read.last, read.before)
	}
}
