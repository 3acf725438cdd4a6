// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"math"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestReadingsSayWhatTheyAre(t *testing.T) {
	type answers struct {
		Number   float64
		IsNumber bool
		Text     string
		IsText   bool
		Present  bool
		Reason   string
	}
	tests := map[string]struct {
		reading procstats.Reading
		want    answers
	}{
		"zero":          {number(procstats.TreeRSS, 0), answers{IsNumber: true, Present: true}},
		"number":        {number(procstats.TreeRSS, 2.5), answers{Number: 2.5, IsNumber: true, Present: true}},
		"text":          {procstats.TextReading(procstats.TreeRSS, "S"), answers{Text: "S", IsText: true, Present: true}},
		"empty text":    {procstats.TextReading(procstats.TreeRSS, ""), answers{IsText: true, Present: true}},
		"absent":        {absent(procstats.TreeRSS, "gone"), answers{Reason: "gone"}},
		"not a number":  {number(procstats.TreeRSS, math.NaN()), answers{Reason: "not a finite number"}},
		"infinite":      {number(procstats.TreeRSS, math.Inf(-1)), answers{Reason: "not a finite number"}},
		"never touched": {procstats.Reading{}, answers{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got answers
			got.Number, got.IsNumber = tt.reading.Number()
			got.Text, got.IsText = tt.reading.Text()
			got.Present, got.Reason = tt.reading.Present(), tt.reading.Reason()
			testkit.Diff(t, "result", tt.want, got)
		})
	}
}

// FuzzReadings puts readings in any order: they stay ordered, and the last of each number is the one that is found.
func FuzzReadings(f *testing.F) {
	f.Add([]byte{3, 1, 2, 1, 3, 0, 255})
	f.Fuzz(func(t *testing.T, ids []byte) {
		var readings procstats.Readings
		want := map[procstats.ID]float64{}
		for i, id := range ids {
			readings.Put(number(procstats.ID(id), float64(i)))
			want[procstats.ID(id)] = float64(i)
		}
		if len(readings) != len(want) {
			t.Fatalf("%d readings of %d numbers", len(readings), len(want))
		}
		for i, r := range readings {
			if i > 0 && readings[i-1].ID() >= r.ID() {
				t.Fatalf("%d comes before %d", readings[i-1].ID(), r.ID())
			}
			if got, ok := readings.Number(r.ID()); !ok || got != want[r.ID()] {
				t.Fatalf("%d has %v, want %v", r.ID(), got, want[r.ID()])
			}
		}
		if _, ok := readings.Number(256); ok {
			t.Fatal("a number was found that was never put")
		}
	})
}

func TestSampleIsReusedWithoutItsPast(t *testing.T) {
	s := printed()
	s.Reset()
	if len(s.Task) != 0 || len(s.Processes) != 0 || s.Omitted != 0 || !s.Zero() {
		t.Errorf("after Reset: %+v", s)
	}
	if _, ok := s.ReadAt(procstats.DiskUsage); ok {
		t.Error("a source of the past has a stamp")
	}
	row := s.AddProcess(procstats.ProcessID{PID: 7, Start: 8})
	if row.PID != 7 || row.Command != "" || row.PPID != 0 || len(row.Readings) != 0 {
		t.Errorf("a new row has a past: %+v", row)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	s := printed()
	before := string(procstats.AppendJSON(nil, s, nil))
	c := s.Clone()
	s.SetNumber(procstats.CgroupCPUUsage, 99)
	s.Processes[0].Readings.Put(number(procstats.ProcessCPU, 99))
	s.Processes[0].Command = "other"
	testkit.Diff(t, "the clone changed", before, string(procstats.AppendJSON(nil, c, nil)))
}

func TestReadAt(t *testing.T) {
	s := printed()
	if stamp, ok := s.ReadAt(procstats.DiskFiles); !ok || stamp != at(-60) {
		t.Errorf("disk read at %v, %v", stamp, ok)
	}
	if stamp, ok := s.ReadAt(procstats.HeadlineCPU); !ok || stamp != s.Stamp {
		t.Errorf("headlines are of %v, %v, want the sample's own stamp", stamp, ok)
	}
	if stamp, ok := s.ReadAt(procstats.PSICPUSome); ok || !stamp.Zero() {
		t.Errorf("pressure, which was not read, was read at %v", stamp)
	}
}

func TestCgroupKnowsItsLayout(t *testing.T) {
	tests := []struct {
		cgroup        procstats.Cgroup
		layout, procs string
	}{
		{procstats.Cgroup{}, "none", ""},
		{procstats.Cgroup{V2: "/u"}, "v2", "/u"},
		{procstats.Cgroup{V1: map[string]string{"memory": "/m", "pids": "/p"}}, "v1", "/p"},
		{procstats.Cgroup{V2: "/u", V1: map[string]string{"memory": "/m"}}, "hybrid", "/u"},
		{procstats.Cgroup{V1: map[string]string{"devices": "/d"}}, "v1", ""},
	}
	for _, tt := range tests {
		c := tt.cgroup
		if c.Layout() != tt.layout || c.Procs() != tt.procs || c.Exists() != (tt.layout != "none") {
			t.Errorf("%v: layout %s, processes in %q, want %s, %q", c, c.Layout(), c.Procs(), tt.layout, tt.procs)
		}
	}
}

// TestCause holds that the cause of an absent reading stays the same while its counts change.
func TestCause(t *testing.T) {
	for reason, want := range map[string]string{
		procstats.WithCounts("processes were skipped: larger than 8 GiB", "3 of 37"): "processes were skipped: larger than 8 GiB",
		"needs Linux 5.8": "needs Linux 5.8",
		"":                "",
	} {
		testkit.Equal(t, procstats.AbsentReading(procstats.DiskUsage, reason).Cause(), want, "%q", reason)
	}
}
