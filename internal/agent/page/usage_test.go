// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// TestPressureAgreesWithRecord holds that the page's word for the last seconds is the one that a record of the same
// seconds has.
func TestPressureAgreesWithRecord(t *testing.T) {
	t.Parallel()
	const span = 4 * time.Second
	sampleAt := func(at time.Duration, shares map[procstats.ID]float64) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(0, int64(at))}}
		for source := procstats.SourceNone; source.Known(); source++ {
			s.SetRead(source, s.Stamp)
		}
		for id, share := range shares {
			s.SetNumber(id, share*at.Seconds())
		}
		return s
	}
	levels := []float64{0, 0.04, 0.06, 0.11, 0.3, 0.9}
	seen := map[string]bool{}
	for i := range len(levels) * len(levels) * len(levels) * len(levels) {
		level := func(place int) float64 {
			n := i
			for range place {
				n /= len(levels)
			}
			return levels[n%len(levels)]
		}
		shares := map[procstats.ID]float64{
			procstats.PSICPUSome: level(0), procstats.PSIMemorySome: level(1), procstats.PSIIOSome: level(2),
			procstats.CgroupCPUThrottled: level(3), procstats.CgroupCPUUsage: float64(i % 2),
		}
		if i%7 == 0 {
			delete(shares, procstats.PSIMemorySome)
		}
		first, last := sampleAt(time.Second, shares), sampleAt(time.Second+span, shares)
		before := liveMoment(&figures.Figures{Sample: first, Headlines: procstats.Headlines(first, procstats.History{})}, []moment{{Run: 1}})
		newest := liveMoment(&figures.Figures{Sample: last, Headlines: procstats.Headlines(last, procstats.History{})}, []moment{{Run: 1}})
		word := pressureOf(&newest, &before).Word
		if want := record.StallOf(record.WaitsBetween(first, last, span)); word != string(want) {
			t.Errorf("%v: the page says %q, the record %q", shares, word, want)
		}
		seen[word] = true
	}
	for _, word := range []record.Stall{
		record.CPUStarved, record.CPUThrottled, record.MemoryThrashing, record.IOBound, record.Idle, record.Fine, "",
	} {
		if !seen[string(word)] {
			t.Errorf("no case is %q", word)
		}
	}
}
