// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// sampled is what was read so long after the start.
func sampled(after time.Duration, cpu, memory float64) *procstats.Sample {
	stamp := procstats.Stamp{Wall: start.Add(after), Mono: time.Hour + after}
	s := &procstats.Sample{Stamp: stamp}
	s.Task.Put(procstats.NumberReading(procstats.CgroupCPUUsage, cpu))
	s.Task.Put(procstats.NumberReading(procstats.TreeMemory, memory))
	return s
}

func newCSV(t *testing.T) (w *CSV, path string) {
	root := testkit.Value(os.OpenRoot(t.TempDir()))(t)
	t.Cleanup(func() { _ = root.Close() })
	return NewCSV(root, "samples.csv"), filepath.Join(root.Name(), "samples.csv")
}

func readAll(t *testing.T, path string) (points []*Point) {
	t.Helper()
	for p, err := range ReadCSV(path) {
		must(t, err)
		points = append(points, p)
	}
	return points
}

// TestSamplesOfALongRun holds that a day of samples fits into the file, that no spike is lost, and that counters add
// up.
func TestSamplesOfALongRun(t *testing.T) {
	t.Parallel()
	w, path := newCSV(t)
	var before *procstats.Sample
	const step = 10 * time.Second
	cpu, gapEnd := 0.0, 12*time.Hour
	for after := step; after <= 24*time.Hour; after += step {
		if after > gapEnd-time.Minute && after < gapEnd {
			continue // nothing was measured
		}
		memory := 50e6
		switch after {
		case 7*time.Hour + 13*step:
			memory, cpu = 900e6, cpu+2*step.Seconds()
		case 20 * time.Hour:
			memory = 1e6
		default:
			cpu += 0.1
		}
		sample := sampled(after, cpu, memory)
		if after == gapEnd {
			before = nil
		}
		must(t, w.Add(PointOf(before, sample)))
		before = sample
	}
	must(t, w.Close())
	const samples = int64(24*time.Hour/step) - 5
	points := readAll(t, path)
	if len(points) < mostRows/4 || len(points) > mostRows {
		t.Errorf("%d points, want about %d", len(points), mostRows)
	}
	var total int64
	gaps := 0
	highest, lowest, fastest := 0.0, math.Inf(1), 0.0
	for i, p := range points {
		total += p.Samples
		most, _ := p.Value(procstats.HeadlineMemory, procstats.Max)
		least, _ := p.Value(procstats.HeadlineMemory, procstats.Min)
		if rate, ok := p.Value(procstats.HeadlineCPU, procstats.Rate); ok {
			fastest = max(fastest, rate)
		}
		highest, lowest = max(highest, most), min(lowest, least)
		if i > 0 && !p.Follows(points[i-1]) {
			gaps++
		}
	}
	if highest != 900e6 || lowest != 1e6 || math.Abs(fastest-2) > 1e-3 || gaps != 1 {
		t.Errorf("memory from %g to %g, CPU up to %g, %d gaps; want from 1e6 to 9e8, up to 2, and one gap",
			lowest, highest, fastest, gaps)
	}
	last, _ := points[len(points)-1].Value(procstats.HeadlineCPU, procstats.Last)
	if math.Abs(last-cpu) > 1e-3 || total != samples || !points[0].Wall.Equal(start.Add(step)) {
		t.Errorf("%d samples from %s, CPU %g at the end; want %d and %g", total, points[0].Wall, last, samples, cpu)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 150<<10 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestPointsOfGaps holds that points which nothing but gaps separates do not grow without bound.
func TestPointsOfGaps(t *testing.T) {
	t.Parallel()
	w, path := newCSV(t)
	for i := range 5 * mostRows {
		must(t, w.Add(PointOf(nil, sampled(time.Duration(i)*time.Minute, 1, 1))))
	}
	must(t, w.Close())
	if n := len(readAll(t, path)); n > mostRows {
		t.Errorf("%d points, want at most %d", n, mostRows)
	}
}

func TestPointRoundTrip(t *testing.T) {
	before, after := sampled(0, 1, 10e6), sampled(1500*time.Millisecond, 1.75, 12345678)
	p := PointOf(before, after)
	got := testkit.Value(decodeRow(header(), p.Fields()))(t)
	testkit.Diff(t, "result", p.Fields(), got.Fields())
	for _, want := range []struct {
		id    procstats.ID
		keep  procstats.Reduction
		value float64
	}{
		{procstats.HeadlineCPU, procstats.Last, 1.75},
		{procstats.HeadlineCPU, procstats.Rate, 0.5},
		{procstats.HeadlineMemory, procstats.Max, 12345678},
	} {
		if value, ok := got.Value(want.id, want.keep); !ok || value != want.value {
			t.Errorf("%s of %s: %g, %t; want %g", want.keep, want.id, value, ok, want.value)
		}
	}
	if value, ok := got.Value(procstats.PSIIOSome, procstats.Last); ok {
		t.Errorf("what was not read is %g", value)
	}
}

func TestDamagedSamples(t *testing.T) {
	rows := strings.Join([]string{
		"time,from_mono,to_mono,samples,cpu_seconds_total,of_a_later_version",
		"2026-03-04T12:00:00.000Z,1,2,1,0.5,9",
		"2026-03-04T12:00:01.000Z,2,3,1,banana,9",
		"2026-03-04T12:00:01.000Z,2,3,1",
		"noon,2,3,1,1,1",
		"2026-03-04T12:00:02.000Z,4,3,1,1,1",
		"2026-03-04T12:00:03.000Z,3,4,1,,",
		"2026-03-04T12:00:04.000Z,4,5,1,1",
	}, "\n")
	read, faults := 0, []string{}
	for p, err := range decodeCSV([]byte(rows), "samples.csv") {
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		value, ok := p.Value(procstats.HeadlineCPU, procstats.Last)
		if want := read == 0; ok != want || ok && value != 0.5 {
			t.Errorf("point %d: %g, %t", read, value, ok)
		}
		read++
	}
	if read != 2 || len(faults) != 4 || !strings.HasPrefix(faults[0], `read samples.csv: line 3: column cpu_seconds_total: "banana"`) {
		t.Errorf("%d points; faults:\n%s", read, strings.Join(faults, "\n"))
	}
}

func FuzzPoints(f *testing.F) {
	f.Add([]byte(strings.Join(header(), ",") + "\n" + strings.Join(PointOf(nil, sampled(0, 1, 1)).Fields(), ",") + "\n"))
	f.Add([]byte("time,samples\n\"2026-03-04T12:00:00Z\",1\n"))
	f.Add([]byte("time\n\"a\nb\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		var points []*Point
		for p, err := range decodeCSV(content, "samples.csv") {
			if (p == nil) == (err == nil) {
				t.Fatalf("point %v, error %v", p, err)
			}
			if err == nil {
				points = append(points, p)
			}
		}
		if thinned := thin(points); len(thinned) > len(points) {
			t.Fatalf("%d points of %d", len(thinned), len(points))
		}
	})
}

// TestColumnsAreDocumented holds docs/records.md against the columns of samples.csv.
func TestColumnsAreDocumented(t *testing.T) {
	page := testkit.Value(os.ReadFile("../../docs/records.md"))(t)
	var table strings.Builder
	for _, c := range RunColumns() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", c.Name, c.Help)
	}
	if !strings.Contains(string(page), "|---|---|\n"+table.String()+"\n") {
		t.Errorf("docs/records.md does not have this table:\n%s", &table)
	}
	if p := newPoint(); len(p.Fields()) != len(RunColumns()) {
		t.Errorf("%d fields, %d columns", len(p.Fields()), len(RunColumns()))
	}
}
