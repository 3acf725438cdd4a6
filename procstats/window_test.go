// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// noon is an arbitrary time of day; tests add to it.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at returns the stamp of a number of seconds on both clocks.
func at(seconds float64) procstats.Stamp {
	d := time.Duration(seconds * float64(time.Second))
	return procstats.Stamp{Mono: time.Hour + d, Wall: noon.Add(d)}
}

// sampleAt returns a sample of which the cgroup and tree sources were read at its own stamp.
func sampleAt(stamp procstats.Stamp, readings ...procstats.Reading) *procstats.Sample {
	s := &procstats.Sample{Stamp: stamp}
	for _, r := range readings {
		s.Task.Put(r)
		if m, ok := procstats.Lookup(r.ID()); ok {
			s.SetRead(m.Source, stamp)
		}
	}
	return s
}

func number(id procstats.ID, value float64) procstats.Reading {
	return procstats.NumberReading(id, value)
}

func absent(id procstats.ID, reason string) procstats.Reading {
	return procstats.AbsentReading(id, reason)
}

func windowOf(samples ...*procstats.Sample) *procstats.Window {
	w := &procstats.Window{}
	for _, s := range samples {
		w.Add(s)
	}
	return w
}

// show writes a reading in words that tests compare.
func show(r procstats.Reading) string {
	if text, ok := r.Text(); ok {
		return text
	}
	if v, ok := r.Number(); ok {
		return string(procstats.AppendNumber(nil, v))
	}
	return "absent: " + r.Reason()
}

func TestWindowReductions(t *testing.T) {
	const gauge, counter = procstats.CgroupMemoryCurrent, procstats.CgroupCPUUsage
	const down, notRead = "absent: the counter went down: its source started again", "absent: not read in the window"
	const one = "absent: only one reading in the window"
	tests := []struct {
		name   string
		id     procstats.ID
		values string // a second apart; - is an absent reading, and . none at all
		want   string
	}{
		{"gauge", gauge, "5 9 1", "last 1, min 1, max 9, mean 5"},
		{"gauge that is below zero", procstats.TreeCPUUnattributed, "-5 -3", "min -5, max -3, mean -4"},
		{"gauge with a gap, which is not 0", gauge, "5 - 7", "last 7, min 5, mean 6"},
		{"gauge that was never read", gauge, "- -", "last absent: gone, mean absent: gone"},
		{"not mentioned", counter, ". .", "delta " + notRead + ", last " + notRead},
		{"counter", counter, "10 10 . . 12", "last 12, delta 2, rate 0.5"},
		{"counter with a gap at the end", counter, "10 . 11 -", "delta 1, rate 0.5"},
		{"one reading", counter, "10", "last 10, delta " + one + ", rate " + one},
		{"restart", counter, "10 3 14", "last 14, delta " + down + ", rate " + down},
	}
	reductions := map[string]procstats.Reduction{}
	for r := procstats.Last; r <= procstats.Tally; r++ {
		reductions[r.String()] = r
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := &procstats.Window{}
			for i, text := range strings.Fields(test.values) {
				s := sampleAt(at(float64(i)))
				if value, err := strconv.ParseFloat(text, 64); err == nil {
					s = sampleAt(at(float64(i)), number(test.id, value))
				} else if text == "-" {
					s = sampleAt(at(float64(i)), absent(test.id, "gone"))
				}
				w.Add(s)
			}
			testkit.Equal(t, w.Samples(), len(strings.Fields(test.values)), "Samples")
			for part := range strings.SplitSeq(test.want, ", ") {
				reduction, want, _ := strings.Cut(part, " ")
				got, err := w.Reduce(test.id, reductions[reduction])
				if err != nil || show(got) != want || got.ID() != test.id {
					t.Errorf("%s: %s (%v), want %s", reduction, show(got), err, want)
				}
			}
		})
	}
}

// TestWindowTrustsNoWallClock steps the time of day back and forth and suspends the machine: CLOCK_MONOTONIC
// and CPU counters stand still in a suspend, the time of day does not.
func TestWindowTrustsNoWallClock(t *testing.T) {
	for name, wall := range map[string]time.Time{
		"stepped back":    noon.Add(-time.Hour),
		"stepped forward": noon.Add(time.Hour),
		"suspended":       noon.Add(10*time.Hour + 2*time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			end := procstats.Stamp{Mono: at(2).Mono, Wall: wall}
			w := windowOf(
				sampleAt(at(0), number(procstats.CgroupCPUUsage, 1)), sampleAt(end, number(procstats.CgroupCPUUsage, 2)),
			)
			rate, err := w.Reduce(procstats.CgroupCPUUsage, procstats.Rate)
			if err != nil || show(rate) != "0.5" {
				t.Errorf("rate %s, %v, want 0.5", show(rate), err)
			}
			if first, last := w.Span(); last.Mono-first.Mono != 2*time.Second {
				t.Errorf("span from %v to %v", first, last)
			}
		})
	}
}

// TestWindowUsesEachSourcesOwnClock has a source that was read later than the sample began.
func TestWindowUsesEachSourcesOwnClock(t *testing.T) {
	first, second := sampleAt(at(0), number(procstats.CgroupCPUUsage, 1)), sampleAt(at(1), number(procstats.CgroupCPUUsage, 2))
	second.SetRead(procstats.SourceCgroup, at(2))
	rate, err := windowOf(first, second).Reduce(procstats.CgroupCPUUsage, procstats.Rate)
	if err != nil || show(rate) != "0.5" {
		t.Errorf("rate %s, %v, want 0.5", show(rate), err)
	}
}

// TestWindowCountsASlowSourcesReadingOnce has a folder that was walked twice in four samples.
func TestWindowCountsASlowSourcesReadingOnce(t *testing.T) {
	w := &procstats.Window{}
	for i, walk := range []struct {
		at    procstats.Stamp
		bytes float64
	}{{at(0), 100}, {at(0), 100}, {at(0), 100}, {at(3), 400}} {
		s := sampleAt(at(float64(i)), number(procstats.DiskUsage, walk.bytes))
		s.SetRead(procstats.SourceDisk, walk.at)
		w.Add(s)
	}
	mean, err := w.Reduce(procstats.DiskUsage, procstats.Mean)
	if err != nil || show(mean) != "250" {
		t.Errorf("mean %s, %v, want 250", show(mean), err)
	}
	if when, ok := w.MaxAt(procstats.DiskUsage); !ok || when != at(3) {
		t.Errorf("largest at %v, %v, want %v", when, ok, at(3))
	}
	w.Advance()
	again := sampleAt(at(4), number(procstats.DiskUsage, 400))
	again.SetRead(procstats.SourceDisk, at(3))
	w.Add(again)
	if last, err := w.Reduce(procstats.DiskUsage, procstats.Last); err != nil || last.Present() {
		t.Errorf("last %s, %v: a reading of the window before is not one of this window", show(last), err)
	}
}

func TestWindowsLoseNothingBetweenThem(t *testing.T) {
	w := windowOf(sampleAt(at(0), number(procstats.CgroupCPUUsage, 1), number(procstats.CgroupMemoryCurrent, 50)))
	total := 0.0
	for i := 1; i <= 6; i++ {
		w.Add(sampleAt(at(float64(i)), number(procstats.CgroupCPUUsage, 1+float64(i*i)), number(procstats.CgroupMemoryCurrent, float64(i))))
		if i%2 == 0 {
			delta := testkit.Value(w.Reduce(procstats.CgroupCPUUsage, procstats.Delta))(t)
			grown, _ := delta.Number()
			total += grown
			if first, last := w.Span(); last.Mono-first.Mono != 2*time.Second {
				t.Errorf("window from %v to %v", first, last)
			}
			w.Advance()
		}
	}
	testkit.Equal(t, total, 36, "sum of the windows")
	testkit.Equal(t, w.Samples(), 0, "samples in a window just begun")
	w.Add(sampleAt(at(7), number(procstats.CgroupMemoryCurrent, 3)))
	if largest, _ := w.Reduce(procstats.CgroupMemoryCurrent, procstats.Max); show(largest) != "3" {
		t.Errorf("max %s, want 3: gauges begin anew", show(largest))
	}
}

func TestWindowAfterARestartGoesOn(t *testing.T) {
	w := windowOf(sampleAt(at(0), number(procstats.CgroupCPUUsage, 10)), sampleAt(at(1), number(procstats.CgroupCPUUsage, 1)))
	w.Advance()
	w.Add(sampleAt(at(2), number(procstats.CgroupCPUUsage, 4)))
	if delta, err := w.Reduce(procstats.CgroupCPUUsage, procstats.Delta); err != nil || show(delta) != "3" {
		t.Errorf("delta %s, %v, want 3", show(delta), err)
	}
}

func TestWindowMaxAt(t *testing.T) {
	w := windowOf(
		sampleAt(at(0), number(procstats.TreeMemory, 5)), sampleAt(at(1), number(procstats.TreeMemory, 9)),
		sampleAt(at(2), number(procstats.TreeMemory, 9)), sampleAt(at(3), absent(procstats.TreeMemory, "gone")),
	)
	for _, id := range []procstats.ID{procstats.TreeMemory, procstats.HeadlineMemory} {
		if when, ok := w.MaxAt(id); !ok || when != at(1) {
			t.Errorf("MaxAt(%d) = %v, %v, want %v", id, when, ok, at(1))
		}
	}
	w.Add(sampleAt(at(4), number(procstats.TreeCPU, 1)))
	for _, id := range []procstats.ID{procstats.CgroupMemoryCurrent, procstats.TreeCPU, procstats.ProcessRSS, 9999} {
		if when, ok := w.MaxAt(id); ok || !when.Zero() {
			t.Errorf("MaxAt(%d) = %v, %v, want nothing", id, when, ok)
		}
	}
}

func TestWindowReducesMemoryOfOneSourceOnly(t *testing.T) {
	w := windowOf(sampleAt(at(0), number(procstats.TreeMemory, 5)), sampleAt(at(1), number(procstats.TreeMemory, 9)))
	if largest, err := w.Reduce(procstats.HeadlineMemory, procstats.Max); err != nil || show(largest) != "9" {
		t.Errorf("max %s, %v, want 9", show(largest), err)
	}
	w.Add(sampleAt(at(2), number(procstats.PortableRSS, 4)))
	if largest, err := w.Reduce(procstats.HeadlineMemory, procstats.Max); err != nil || largest.Present() {
		t.Errorf("max %s, %v: two ways of measuring are not compared", show(largest), err)
	}
	w.Advance()
	w.Add(sampleAt(at(3), number(procstats.PortableRSS, 3)))
	if last, err := w.Reduce(procstats.HeadlineMemory, procstats.Last); err != nil || show(last) != "3" {
		t.Errorf("last %s, %v, want 3", show(last), err)
	}
	if _, err := w.Reduce(procstats.HeadlineMemory, procstats.Rate); !errors.Is(err, procstats.ErrIllegalReduction) {
		t.Errorf("rate of memory: %v", err)
	}
}

func TestIllegalReductions(t *testing.T) {
	w := windowOf(sampleAt(at(0)), sampleAt(at(1)))
	for _, m := range procstats.Table() {
		for r := procstats.Last; r <= procstats.Tally; r++ {
			_, err := w.Reduce(m.ID, r)
			legal := m.Scope == procstats.TaskScope && m.Kind.Allows(r) && r != procstats.Tally
			if m.ID == procstats.HeadlineMemory {
				legal = m.Kind.Allows(r)
			}
			if legal && err != nil {
				t.Errorf("%s of %s: %v", r, m.Name, err)
			}
			if !legal && (!errors.Is(err, procstats.ErrIllegalReduction) || !strings.Contains(err.Error(), m.Name)) {
				t.Errorf("%s of %s: error %v, want illegal", r, m.Name, err)
			}
		}
	}
	if _, err := w.Reduce(9999, procstats.Last); !errors.Is(err, procstats.ErrUnknownMeasurement) {
		t.Errorf("number 9999: %v, want unknown", err)
	}
}

func TestWindowPassesOverUnknownNumbers(t *testing.T) {
	w := windowOf(sampleAt(at(0), number(9999, 1), number(procstats.TreeRSS, 2)))
	if last, err := w.Reduce(procstats.TreeRSS, procstats.Last); err != nil || show(last) != "2" {
		t.Errorf("last %s, %v, want 2", show(last), err)
	}
}

// FuzzWindow feeds counters and clocks of any kind: a delta or a rate is never negative and never not finite.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{0, 1, 10, 1, 1, 12, 2, 9, 3})
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := &procstats.Window{}
		mono, value := int64(1000), 100.0
		for len(steps) >= 3 {
			mono += int64(int8(steps[0]))
			value += float64(int8(steps[1]))
			stamp := procstats.Stamp{Mono: time.Duration(mono), Wall: noon.Add(time.Duration(int8(steps[2])) * time.Hour)}
			w.Add(sampleAt(stamp, number(procstats.CgroupCPUUsage, value)))
			if steps[2]%7 == 0 {
				w.Advance()
			}
			steps = steps[3:]
			for _, r := range []procstats.Reduction{procstats.Delta, procstats.Rate} {
				got := testkit.Value(w.Reduce(procstats.CgroupCPUUsage, r))(t)
				if v, ok := got.Number(); ok && (v < 0 || math.IsInf(v, 0) || math.IsNaN(v)) {
					t.Fatalf("%s is %v", r, v)
				}
			}
		}
	})
}
