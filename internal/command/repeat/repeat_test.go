// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package repeat

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// seriesOf returns a series of runs that took as long as given.
func seriesOf(name string, seconds ...float64) Group {
	s := Group{Name: name}
	for i, v := range seconds {
		peak := 1000 * v
		s.Runs = append(s.Runs, record.Entry{Name: fmt.Sprint(name, i), Record: &record.Record{
			WallSeconds: &v,
			Headline:    map[string]record.HeadlineValue{"memory_peak_bytes": {Value: &peak, Guarantee: procstats.LowerBound}},
		}})
	}
	return s
}

// counted returns the whole numbers from one to another.
func counted(from, to int) (values []float64) {
	for n := from; n <= to; n++ {
		values = append(values, float64(n))
	}
	return values
}

// TestStatistics holds the statistics against figures that were computed elsewhere.
func TestStatistics(t *testing.T) {
	for _, test := range []struct {
		values                 []float64
		mean, stddev           float64
		outliers, min, maximum int
	}{
		{[]float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, 2.138089935299395, 1, 2, 9},
		{[]float64{1, 3, 1, 3, 1, 3, 1, 3, 1, 3}, 2, 1.0540925533894598, 0, 1, 3}, // of two modes, neither is an outlier
		{[]float64{20, 20, 20, 20, 20, 20, 20, 20, 20, 200}, 38, 56.92099788303083, 1, 20, 200},
		{[]float64{100, 100, 100, 100, 100.5}, 100.1, 0.22360679774997896, 0, 100, 100}, // half a percent is nothing
		{[]float64{7, 70, 7}, 28, 36.37306695894642, 0, 7, 70},                          // of three values none is
	} {
		s := statisticsOf(test.values)
		if math.Abs(s.Mean-test.mean) > 1e-9 || math.Abs(*s.StdDev-test.stddev) > 1e-9 || s.Min != float64(test.min) || int(s.Max) != test.maximum {
			t.Errorf("%v: %+v with %v, want %v ± %v", test.values, s, *s.StdDev, test.mean, test.stddev)
		}
		if found := outliers(test.values); len(found) != test.outliers {
			t.Errorf("%v: outliers %v, want %d", test.values, found, test.outliers)
		}
	}
	if s := statisticsOf([]float64{3}); s.StdDev != nil || s.Mean != 3 {
		t.Errorf("one value: %+v", s)
	}
}

// TestNoise compares series of which the result of Welch's test is published.
func TestNoise(t *testing.T) {
	for _, test := range []struct {
		name          string
		a, b          []float64
		within, known bool
	}{
		{"R's example: t = -5.4, 22 degrees of freedom", counted(1, 10), counted(7, 20), false, true},
		{"t = 1.96, 7 degrees of freedom", []float64{30.02, 29.99, 30.11, 29.97, 30.01, 29.99}, []float64{29.89, 29.93, 29.72, 29.98, 30.02, 29.98}, true, true},
		{"a single run within a series", []float64{10, 11, 12, 11}, []float64{12.5}, true, true},
		{"a single run far from a series", []float64{10, 11, 12, 11}, []float64{20}, false, true},
		{"two single runs", []float64{10}, []float64{20}, false, false},
		{"series that do not vary", []float64{10, 10, 10}, []float64{11, 11, 11}, false, true},
		{"equal series that do not vary", []float64{10, 10, 10}, []float64{10, 10, 10}, true, true},
	} {
		for range 2 {
			rows := Compare(seriesOf("a", test.a...), seriesOf("b", test.b...))
			got := rows[1].WithinNoise
			if (got != nil) != test.known || got != nil && *got != test.within {
				t.Errorf("%s: %v", test.name, rows[1])
			}
			test.a, test.b = test.b, test.a
		}
	}
}

// TestVerdict holds what is said of the fastest series beside others: by the ratio of means, with the deviation that hyperfine
// gives it, sqrt((σa/a)² + (σb/b)²) times the ratio.
func TestVerdict(t *testing.T) {
	exact := func(name string, seconds ...float64) Group {
		s := seriesOf(name, seconds...)
		for i, v := range seconds {
			peak := v * 20 * (1 << 20)
			s.Runs[i].Record.Headline["memory_peak_bytes"] = record.HeadlineValue{Value: &peak, Guarantee: procstats.Exact}
		}
		return s
	}
	for _, test := range []struct {
		all  []Group
		want string
	}{
		{[]Group{exact("A", 1, 1.1, 0.9), exact("B", 3, 3.1, 2.9)}, "A is 3.0 ± 0.3 times as fast as B, and uses 40 MiB less memory at its peak"},
		{[]Group{exact("B", 3, 3.1, 2.9), exact("A", 1, 1.1, 0.9)}, "A is 3.0 ± 0.3 times as fast as B, and uses 40 MiB less memory at its peak"},
		{[]Group{seriesOf("A", 1, 1.1, 0.9), seriesOf("B", 3, 3.1, 2.9)}, "A is 3.0 ± 0.3 times as fast as B"},
		{[]Group{exact("A", 1, 1, 1), exact("B", 2, 2, 2)}, "A is 2.00 ± 0.00 times as fast as B, and uses 20 MiB less memory at its peak"},
		{[]Group{exact("A", 1, 1.1, 0.9), exact("B", 1, 1.1, 0.91)}, "A is not measurably faster than B (within noise)"},
		{[]Group{exact("A", 1, 1.1, 0.9), exact("B", 3)}, ""},
		{[]Group{exact("A", 1), exact("B", 3)}, ""},
		{[]Group{exact("A", 0, 0), exact("B", 1, 1)}, ""},
		{[]Group{exact("A", 4, 4.1), exact("B", 1, 1.01), {Name: "none", Runs: []record.Entry{{Record: &record.Record{}}}}}, "B is 4.03 ± 0.08 times as fast as A, and uses 60.9 MiB less memory at its peak"},
	} {
		testkit.Equal(t, verdictsOf(Compare(test.all...)), test.want, "%s", test.all[0].Name)
	}
}

func verdictsOf(rows []Row) (text string) {
	for i := range rows {
		text += rows[i].Verdict
	}
	return text
}

// TestWrite holds that all formats have all rows.
func TestWrite(t *testing.T) {
	rows := Compare(seriesOf("first", 1.1, 1.2, 1.3), seriesOf("a|later", 2.123456789), Group{Name: "none", Runs: []record.Entry{{Record: &record.Record{}}}})
	for _, format := range Formats() {
		var out strings.Builder
		testkit.Must(t, Write(&out, cli.Palette{}, format, rows))
		if got := out.String(); strings.Count(got, "later") < 2 || !strings.Contains(got, "the run has no end") {
			t.Errorf("%s:\n%s", format, got)
		}
	}
	if text := Markdown(rows[:1]); strings.Contains(text, "CHANGE") || strings.Count(text, "\n") != 3 {
		t.Errorf("of one series:\n%s", text)
	}
}

// TestTrend compares runs with those before: slower, as fast within noise, and too few, failed or elsewhere.
func TestTrend(t *testing.T) {
	runs := func(seconds ...float64) (all []*record.Record) {
		for i, entry := range seriesOf("a", seconds...).Runs {
			entry.Record.StartedAt, entry.Record.Diagnosis.Verdict = time.Unix(int64(i), 0), record.Completed
			all = append(all, entry.Record)
		}
		return all
	}
	for _, test := range []struct {
		seconds []float64
		change  func(r *record.Record)
		want    string
	}{
		{[]float64{10, 11, 12, 11, 20}, nil, "with the 4 runs before: slower (20 s, they 11 s ± 816 ms), " +
			"more memory (19.5 KiB, they 10.7 KiB ± 816 B)"},
		{[]float64{10, 10, 10, 5}, nil, "with the 3 runs before: faster (5 s, they 10 s ± 0 s), less memory (4.88 KiB, they 9.77 KiB ± 0 B)"},
		{[]float64{10, 11, 12, 11, 12.5}, nil, ""},
		{[]float64{10, 10, 10, 10.1}, nil, ""},
		{[]float64{10, 11, 20}, nil, ""},
		{[]float64{10, 11, 12, 20}, func(r *record.Record) { r.Diagnosis.Verdict = record.Failed }, ""},
		{[]float64{10, 11, 12, 20}, func(r *record.Record) { r.Host.Name = "other" }, ""},
	} {
		all := runs(test.seconds...)
		last := all[len(all)-1]
		if test.change != nil {
			test.change(last)
		}
		testkit.Equal(t, Trend(last, all), test.want, "%v", test.seconds)
	}
}

// TestDistinct has runs of one name in two directories, one of them twice.
func TestDistinct(t *testing.T) {
	of := func(dir, name string) Group {
		return Group{Name: name, Runs: []record.Entry{{Name: name, Dir: dir + "/" + name}}}
	}
	var got []string
	for _, s := range Distinct([]Group{of("main", "run"), of("main", "other"), of("branch", "run"), of("main", "run")}) {
		got = append(got, s.Name)
	}
	if want := []string{"run (main/run)", "other", "run (branch/run)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
