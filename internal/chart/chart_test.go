// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// minutes is an axis with a moment a minute from noon on.
func minutes(n int) *Axis {
	a := &Axis{Since: noon, Until: noon.Add(time.Duration(n-1) * time.Minute)}
	for i := range n {
		a.Moments = append(a.Moments, Moment{At: noon.Add(time.Duration(i) * time.Minute)})
	}
	return a
}

// example is a quarter of an hour with a gap, an OOM kill, names that are not harmless, and no pressure.
func example() (*Axis, []Chart) {
	a := minutes(16)
	a.Moments[9].Break = true
	a.Ticks = TicksSince(a.Since, a.Until, 10)
	a.Gaps = []Gap{{noon.Add(5 * time.Minute), noon.Add(9 * time.Minute), `no readings: <the agent> was not "running"`}}
	a.Marks = []Mark{
		{At: noon.Add(12 * time.Minute), Class: "oom", Title: "OOM kills: 1"},
		{At: noon.Add(13 * time.Minute), Class: "start", Title: "started"},
	}
	wave := func(size float64) []float64 {
		values := make([]float64, len(a.Moments))
		for i := range values {
			values[i] = size * (1 + math.Sin(float64(i)))
			if i > 5 && i < 9 {
				values[i] = math.NaN()
			}
		}
		return values
	}
	return a, []Chart{
		{
			Title: "CPU, in cores", Unit: procstats.Cores, Limits: []Limit{{"quota", 2}, {"machine", 64}},
			Series: []Series{
				{Label: "all", Class: "cpu", Area: true, Values: wave(0.9)},
				{Label: "user", Class: "first", Detail: true, Values: wave(0.5)},
			},
		},
		{
			Title: "Memory", Unit: procstats.Bytes, Limits: []Limit{{"limit", 512 << 20}},
			Series: []Series{
				{Label: "a && <b>", Class: "cache", Area: true, Values: wave(200 << 20)},
				{Label: "needed", Class: "memory", Area: true, Values: wave(100 << 20)},
			},
		},
		{
			Title: "Pressure", Unit: procstats.Share, Missing: "no <PSI> & no kernel option",
			Series: []Series{{Label: "for a CPU", Class: "cpu", Values: nothing(16)}},
		},
	}
}

func nothing(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}

// exampleBars has a share that cannot be, and names that are too long or not XML.
func exampleBars() *Bars {
	return &Bars{Title: "CPU by <command>", Rows: []Bar{
		{Share: 0.75, Label: "a && <b> ×12", Value: "1.5 s  75 %"},
		{Share: 1.2, Label: strings.Repeat("long ", 9), Value: "2.4 s  120 %"},
		{Share: -0.01, Label: "unattributed", Value: "-20 ms  -1 %"},
	}}
}

func TestGolden(t *testing.T) {
	a, charts := example()
	var image bytes.Buffer
	testkit.Must(t, WriteSVG(&image, "run  sh -c 'a && b <c >d' \x1b[31m", a, charts, exampleBars()))
	var page strings.Builder
	for i := range charts {
		page.WriteString(charts[i].HTML(a) + "\n")
	}
	for name, got := range map[string]string{
		"image.svg": image.String(), "page.html": page.String(), "terminal.txt": Text(a, charts, Screen{Columns: 80, Rows: 8}),
		"narrow.txt": Text(a, charts, Screen{Columns: 30, Rows: 1}),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			testkit.Must(t, os.WriteFile(path, []byte(got), 0o644))
			continue
		}
		want := testkit.Value(os.ReadFile(path))(t)
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s has changed; -update takes it over (-want +got):\n%s", name, diff)
		}
	}
}

func TestImageIsXML(t *testing.T) {
	a, charts := example()
	var out bytes.Buffer
	testkit.Must(t, WriteSVG(&out, "run  sh -c 'a && b <c >d' \x1b[31m", a, charts, exampleBars()))
	if strings.Contains(out.String(), "var(") {
		t.Error("a variable is in the style sheet of the image: not all that show SVG know them")
	}
	var texts strings.Builder
	decoder := xml.NewDecoder(&out)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the image is not XML: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts.Write(append(text, '\n'))
		}
	}
	for _, want := range []string{
		"sh -c 'a && b <c >d' \uFFFD[31m", "512 MiB", "14m", "a && <b>", "machine 64.00, above this scale",
		"Not measured: no <PSI> & no kernel option.", "a && <b> ×12", "CPU by <command>", "-20 ms  -1 %",
	} {
		if !strings.Contains(texts.String(), want) {
			t.Errorf("no text %q in\n%s", want, texts.String())
		}
	}
}

// TestLinesBreak holds that nothing is drawn where nothing was measured.
func TestLinesBreak(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name   string
		breaks int // the moment that no line leads to
		values []float64
		want   string
	}{
		{"whole", 0, []float64{0, 1, 1, 1, 0}, "M0 100L25 0L50 0L75 0L100 100"},
		{"a value is absent", 0, []float64{1, 1, nan, 1, 1}, "M0 0L25 0M75 0L100 0"},
		{"a break between two values", 2, []float64{1, 1, 1, 1, 1}, "M0 0L25 0M50 0L75 0L100 0"},
		{"one reading alone is a dot", 0, []float64{nan, nan, 1, nan, nan}, "M50 0h1"},
		{"nothing", 0, nothing(5), ""},
		{"above the scale", 0, []float64{2, nan, nan, nan, 0}, "M0 0h1M100 100h1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := minutes(5)
			a.Moments[test.breaks].Break = true
			if got, _ := (box{100, 100}).paths(a, test.values, 1); got != test.want {
				t.Errorf("line %s, want %s", got, test.want)
			}
		})
	}
	t.Run("before the axis", func(t *testing.T) {
		a := minutes(3)
		a.Since = noon.Add(time.Minute)
		if got, _ := (box{100, 100}).paths(a, []float64{1, 1, 1}, 1); got != "M0 0L100 0" {
			t.Errorf("line %s, want it from the second moment on", got)
		}
	})
}

func TestValueTicks(t *testing.T) {
	for _, test := range []struct {
		unit    procstats.Unit
		highest float64
		want    string
	}{
		{procstats.Cores, 0, "0 | 0.025 | 0.05 | 0.075 | 0.1"},
		{procstats.Cores, 1, "0 | 0.25 | 0.5 | 0.75 | 1"},
		{procstats.Cores, 7.5, "0 | 2 | 4 | 6 | 8"},
		{procstats.Cores, 0.3, "0 | 0.1 | 0.2 | 0.3"},
		{procstats.Bytes, 0, "0 | 256 KiB | 512 KiB | 768 KiB | 1 MiB"},
		{procstats.Bytes, 200 << 20, "0 | 64 MiB | 128 MiB | 192 MiB | 256 MiB"},
		{procstats.BytesPerSecond, 5 << 30, "0 | 2 GiB/s | 4 GiB/s | 6 GiB/s"},
		{procstats.Share, 0.31, "0 | 10 % | 20 % | 30 % | 40 %"},
		{procstats.None, 12_000, "0 | 5,000 | 10,000 | 15,000"},
		{procstats.Seconds, 100, "0 | 25 s | 50 s | 1m15s | 1m40s"},
	} {
		labels, top := valueTicks(test.unit, test.highest)
		if got := strings.Join(labels, " | "); got != test.want || top < test.highest {
			t.Errorf("%v up to %g: %s, top %g; want %s", test.unit, test.highest, got, top, test.want)
		}
	}
}

// labels are those of ticks.
func labels(ticks []Tick) string {
	var list []string
	for _, t := range ticks {
		list = append(list, t.Label)
	}
	return strings.Join(list, " | ")
}

func TestTimeTicks(t *testing.T) {
	for span, want := range map[time.Duration]string{
		20 * time.Millisecond:   "0 | 2 ms | 4 ms | 6 ms | 8 ms | 10 ms | 12 ms | 14 ms | 16 ms | 18 ms | 20 ms",
		2700 * time.Millisecond: "0 | 500 ms | 1 s | 1.5 s | 2 s | 2.5 s",
		95 * time.Second:        "0 | 10 s | 20 s | 30 s | 40 s | 50 s | 1m | 1m10s | 1m20s | 1m30s",
		15 * time.Minute:        "0 | 2m | 4m | 6m | 8m | 10m | 12m | 14m",
		30 * 24 * time.Hour:     "0 | 4d | 8d | 12d | 16d | 20d | 24d | 28d",
	} {
		if got := labels(TicksSince(noon, noon.Add(span), 10)); got != want {
			t.Errorf("since the start of %s: %s\nwant %s", span, got, want)
		}
	}
}

// TestClockTicks holds that the labels of a page are round times of day, few, and in its time zone.
func TestClockTicks(t *testing.T) {
	for _, test := range []struct {
		from string
		zone int // seconds
		span time.Duration
		want string
	}{
		{"2026-11-20T11:45:03Z", 0, 15 * time.Minute, "11:50 | 11:55 | 12:00"},
		{"2026-11-20T11:45:03Z", 0, 95 * time.Second, "11:45:30 | 11:46:00 | 11:46:30"},
		{"2026-11-20T11:45:03Z", 5*3600 + 1800, 6 * time.Hour, "18:00 | 19:00 | 20:00 | 21:00 | 22:00 | 23:00"},
		{"2026-11-20T22:30:00Z", 0, 4 * time.Hour, "23:00 | Nov 21 | 01:00 | 02:00"},
		{"2026-11-20T22:30:00Z", -3600, 30 * 24 * time.Hour, "Nov 25 | Dec 3 | Dec 11 | Dec 19"},
		{"2026-11-20T22:30:00Z", 0, time.Second, "22:30:00 | 22:30:01"},
	} {
		since := testkit.Value(time.Parse(time.RFC3339, test.from))(t).In(time.FixedZone("", test.zone))
		ticks := ClockTicks(since, since.Add(test.span), 6)
		if got := labels(ticks); got != test.want || len(ticks) > 7 {
			t.Errorf("%s from %s: %s, want %s", test.span, since, got, test.want)
		}
	}
}

// TestMarksAreGathered holds that marks which would hide each other and the data are one, of the graver class.
func TestMarksAreGathered(t *testing.T) {
	a := &Axis{Since: noon, Until: noon.Add(time.Hour)}
	for i := range 8 {
		a.Marks = append(a.Marks, Mark{At: noon.Add(time.Duration(i) * time.Second), Class: "start", Title: fmt.Sprint(i)})
	}
	a.Marks[2].Class = "oom"
	a.Marks = append([]Mark{{At: noon.Add(30 * time.Minute), Class: "end", Title: "end"}}, a.Marks...)
	want := []Mark{
		{At: noon, Class: "oom", Title: "0; 1; 2; and more"}, {At: noon.Add(30 * time.Minute), Class: "end", Title: "end"},
	}
	testkit.Diff(t, "marks", want, a.gathered())
}

func TestFarLimitsAreLeftOut(t *testing.T) {
	c := Chart{Unit: procstats.Bytes, Series: []Series{{Values: []float64{1 << 30}}}}
	for _, test := range []struct {
		limit, top float64
	}{{2 << 30, 2 << 30}, {3 << 30, 3 << 30}, {3<<30 + 1, 1 << 30}, {1 << 50, 1 << 30}} {
		c.Limits = []Limit{{"limit", test.limit}}
		if got := c.layout().top; got != test.top {
			t.Errorf("with a limit of %s the axis reaches %s, want %s", c.text(test.limit), c.text(got), c.text(test.top))
		}
	}
}

func TestColumns(t *testing.T) {
	a := minutes(11)
	nan := math.NaN()
	for _, test := range []struct {
		name   string
		values []float64
		want   string
	}{
		{"steps and a gap", []float64{1, 1, 1, 3, 3, nan, nan, 5, 5, 5, 5}, "[1 1 3 3 NaN NaN NaN 5 5 5]"},
		{"a spike", []float64{0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0}, "[0 0 0 9 9 0 0 0 0 0]"},
		{"one reading alone", []float64{nan, nan, 4, nan, nan, nan, nan, nan, nan, nan, 7}, "[NaN NaN 4 NaN NaN NaN NaN NaN NaN 7]"},
		{"nothing", nothing(11), "[NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN]"},
	} {
		testkit.Equal(t, fmt.Sprint(a.columns(test.values, 10)), test.want, "%s: columns", test.name)
	}
	// A value that holds for a time has two moments: what leads straight up or down is in no column of its own.
	a = &Axis{Since: noon, Until: noon.Add(4 * time.Second)}
	for _, at := range []time.Duration{0, 2 * time.Second, 2 * time.Second, 4 * time.Second} {
		a.Moments = append(a.Moments, Moment{At: noon.Add(at)})
	}
	testkit.Equal(t, fmt.Sprint(a.columns([]float64{3, 3, 1, 1}, 4)), "[3 3 1 1]", "two steps: columns")
}

func TestData(t *testing.T) {
	a := minutes(3)
	a.Since = noon.Add(time.Minute)
	c := Chart{Unit: procstats.Bytes, Series: []Series{{Label: "x", Class: "cpu", Values: []float64{1, math.NaN(), 123456}}}}
	var got struct {
		Unit         string
		Since, Until int64
		Times        []int64
		Series       []struct{ Values []*float64 }
	}
	testkit.Must(t, json.Unmarshal([]byte(c.data(a)), &got))
	want := []int64{noon.UnixMilli() + 60_000, noon.UnixMilli() + 120_000}
	if !cmp.Equal(got.Times, want) || got.Since != want[0] || got.Until != want[1] {
		t.Errorf("times %v from %d to %d, want %v", got.Times, got.Since, got.Until, want)
	}
	if values := got.Series[0].Values; values[0] != nil || values[1] == nil || *values[1] != 123_500 || got.Unit != "bytes" {
		t.Errorf("values %v in %q", values, got.Unit)
	}
}

func TestChartsOfNothing(t *testing.T) {
	one := minutes(1)
	for name, test := range map[string]struct {
		axis  *Axis
		chart Chart
	}{
		"no moments":  {&Axis{}, Chart{Series: []Series{{}}}},
		"no series":   {minutes(3), Chart{Limits: []Limit{{"limit", 7}}}},
		"one instant": {one, Chart{Unit: procstats.Bytes, Series: []Series{{Values: []float64{0}}}}},
		"huge":        {minutes(2), Chart{Unit: procstats.Cores, Series: []Series{{Values: []float64{0, 1e300}}}}},
		"negative":    {minutes(2), Chart{Unit: procstats.Cores, Series: []Series{{Values: []float64{-1, -2}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.axis.Ticks = TicksSince(test.axis.Since, test.axis.Until, 10)
			var image strings.Builder
			testkit.NoError(t, WriteSVG(&image, "", test.axis, []Chart{test.chart}, nil))
			for what, text := range map[string]string{
				"image": image.String(), "page": test.chart.HTML(test.axis),
				"terminal": Text(test.axis, []Chart{test.chart}, Screen{Columns: 80, Rows: 8}),
				"spark":    Spark(test.axis, Series{Values: nothing(len(test.axis.Moments))}, 1, "nothing"),
			} {
				if text == "" || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
					t.Errorf("%s: %s", what, text)
				}
			}
		})
	}
}

func TestTextColours(t *testing.T) {
	a, charts := example()
	if text := Text(a, charts, Screen{Columns: 60, Rows: 6}); strings.Contains(text, "\x1b[") {
		t.Error("colours although none are wanted")
	}
	text := Text(a, charts, Screen{Columns: 60, Rows: 6, Colour: true})
	if strings.Count(text, "\x1b[3") != strings.Count(text, resetColour) || !strings.Contains(text, "\x1b[32m") {
		t.Error("colours are missing, or do not end")
	}
}

// TestStylesKnowTheColours holds that every variable of a style sheet is in the palette.
func TestStylesKnowTheColours(t *testing.T) {
	rest := svgStyle + aroundImage + aroundPage
	for _, c := range palette() {
		rest = strings.ReplaceAll(rest, "var(--"+c.name+")", "")
	}
	if i := strings.Index(rest, "var("); i >= 0 {
		t.Errorf("no colour for %s", rest[i:min(len(rest), i+30)])
	}
}
