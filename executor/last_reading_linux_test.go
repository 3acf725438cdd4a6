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
	if r.last != second || r.before != first || r.whole.Samples() != 2 {
		t.Errorf("last %v, before %v, of %d samples", r.last, r.before, r.whole.Samples())
	}
}
