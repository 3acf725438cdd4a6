// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
)

// examplePanels are of a run of five minutes that was not measured from 120 to 180 seconds, without pressure.
func examplePanels() []Panel {
	r := &record.Record{
		Headline: map[string]record.HeadlineValue{
			"cpu_seconds_total":    {Source: "cgroup_cpu_usage_seconds_total"},
			"io_read_bytes_total":  {Source: "cgroup_io_read_bytes_total"},
			"io_write_bytes_total": {Source: "cgroup_io_write_bytes_total"},
		},
		Absent: map[string]string{"psi_cpu_some_seconds_total": "no <PSI> & no kernel option"},
	}
	var reports []*record.Usage
	for i := range 60 {
		if i >= 24 && i < 36 {
			continue
		}
		from := float64(1000 + 5*i)
		wave := 1 + math.Sin(float64(i)/4)
		mib := float64(1 << 20)
		reports = append(reports, &record.Usage{
			FromMono: from, ToMono: from + 5,
			Headline: map[string]record.HeadlineValue{"memory_bytes": {Value: new(wave * 100 * mib)}},
			Measurements: map[string]record.Reduced{
				"cgroup_cpu_usage_seconds_total":  {Rate: new(wave * 1.9)},
				"cgroup_cpu_user_seconds_total":   {Rate: new(wave * 1.2)},
				"cgroup_cpu_system_seconds_total": {Rate: new(wave * 0.7)},
				"cgroup_cpu_quota_cores":          {Last: new(4.0)},
				"cgroup_memory_current_bytes":     {Max: new(300 * mib * (1 + float64(i)/120))},
				"cgroup_memory_anon_bytes":        {Mean: new(wave * 80 * mib)},
				"cgroup_memory_file_bytes":        {Mean: new(200 * mib)},
				"cgroup_memory_max_bytes":         {Last: new(512 * mib)},
				"cgroup_io_read_bytes_total":      {Rate: new(wave * 3e6)},
				"cgroup_io_write_bytes_total":     {Rate: new(4e6)},
			},
		})
	}
	return Panels(r, reports)
}

func TestPanelsKeepGaps(t *testing.T) {
	panels := examplePanels()
	cpu := panels[0]
	stretches := cpu.Lines[0].Stretches()
	if len(stretches) != 2 {
		t.Fatalf("%d stretches, want 2: before and after the gap", len(stretches))
	}
	if end, start := stretches[0][23].To, stretches[1][0].From; end != 120 || start != 180 {
		t.Errorf("the gap is from %g to %g, want 120 to 180", end, start)
	}
	pressure := panels[3]
	if len(pressure.Lines) != 0 || pressure.Missing != "no <PSI> & no kernel option" {
		t.Errorf("pressure: %d lines, missing %q; want none and the reason", len(pressure.Lines), pressure.Missing)
	}
}

func TestPanelsTakeNoZeroForAbsent(t *testing.T) {
	reports := []*record.Usage{
		{FromMono: 0, ToMono: 1, Measurements: map[string]record.Reduced{"cgroup_memory_current_bytes": {Max: new(0.0)}}},
		{FromMono: 1, ToMono: 2, Measurements: map[string]record.Reduced{"cgroup_memory_current_bytes": {}}},
		{FromMono: 2, ToMono: 3, Measurements: map[string]record.Reduced{"cgroup_memory_current_bytes": {Max: new(7.0)}}},
	}
	got := Panels(&record.Record{}, reports)[1].Lines[0].Steps
	if diff := cmp.Diff([]Step{{0, 1, 0}, {2, 3, 7}}, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestImages(t *testing.T) {
	panels := examplePanels()
	title := "run  sh -c 'a && b <c >d' \x1b[31m"
	t.Run("svg", func(t *testing.T) {
		var out bytes.Buffer
		if err := WriteSVG(&out, title, panels); err != nil {
			t.Fatal(err)
		}
		texts := svgTexts(t, out.Bytes())
		for _, want := range []string{"CPU, in cores", "512 MiB", "5m", "written", "Share of the time in which the task waited: not measured (no <PSI> & no kernel option)"} {
			if !strings.Contains(texts, want) {
				t.Errorf("no text %q in\n%s", want, texts)
			}
		}
	})
	t.Run("png", func(t *testing.T) {
		var out bytes.Buffer
		if err := WritePNG(&out, title, panels); err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(&out)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := picture.Bounds().Size(), fmt.Sprintf("(%d,%d)", imageWidth, titleHeight+4*panelHeight); got.String() != want {
			t.Errorf("size %v, want %s", got, want)
		}
	})
}

// svgTexts checks that the image is well-formed XML and returns its texts, a line each.
func svgTexts(t *testing.T, image []byte) string {
	t.Helper()
	var texts strings.Builder
	decoder := xml.NewDecoder(bytes.NewReader(image))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts.String()
		}
		if err != nil {
			t.Fatalf("the image is not XML: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts.Write(append(text, '\n'))
		}
	}
}

func TestImagesOfNothing(t *testing.T) {
	for name, panels := range map[string][]Panel{
		"no reports":   Panels(&record.Record{}, nil),
		"empty report": Panels(&record.Record{}, []*record.Usage{{}}),
		"one instant":  {{Unit: Bytes, Lines: []Line{{Name: "x", Steps: []Step{{From: 0, To: 1e-9, Value: 0}}}}}},
		"huge":         {{Unit: Cores, Lines: []Line{{Name: "x", Steps: []Step{{From: 0, To: 1e9, Value: 1e300}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := WriteSVG(io.Discard, "", panels); err != nil {
				t.Error(err)
			}
			if err := WritePNG(io.Discard, "", panels); err != nil {
				t.Error(err)
			}
			if text := Text(panels, 80, 8, false); text == "" {
				t.Error("no text")
			}
		})
	}
}

func TestThinKeepsExtremes(t *testing.T) {
	var steps []Step
	for i := range 100_000 {
		value := 1.0
		switch i {
		case 33_333:
			value = 1000
		case 66_666:
			value = -1
		}
		steps = append(steps, Step{From: float64(i), To: float64(i + 1), Value: value})
	}
	low, high := math.Inf(1), math.Inf(-1)
	kept := thin(steps)
	for _, step := range kept {
		low, high = min(low, step.Value), max(high, step.Value)
	}
	if len(kept) > 2*2*imageWidth || low != -1 || high != 1000 {
		t.Errorf("%d steps from %g to %g, want at most %d from -1 to 1000", len(kept), low, high, 4*imageWidth)
	}
}

func TestTicks(t *testing.T) {
	labels := func(ticks []tick) string {
		var list []string
		for _, t := range ticks {
			list = append(list, t.label)
		}
		return strings.Join(list, " | ")
	}
	for _, test := range []struct {
		unit    Unit
		highest float64
		want    string
	}{
		{Cores, 0, "0 | 0.02 | 0.04 | 0.06 | 0.08 | 0.1"},
		{Cores, 1, "0 | 0.2 | 0.4 | 0.6 | 0.8 | 1"},
		{Cores, 7.5, "0 | 2 | 4 | 6 | 8"},
		{Bytes, 0, "0 B | 256 B | 512 B | 768 B | 1 KiB"},
		{Bytes, 200 << 20, "0 B | 64 MiB | 128 MiB | 192 MiB | 256 MiB"},
		{BytesPerSecond, 5 << 30, "0 B/s | 1 GiB/s | 2 GiB/s | 3 GiB/s | 4 GiB/s | 5 GiB/s"},
		{Share, 0.31, "0 % | 10 % | 20 % | 30 % | 40 %"},
	} {
		if got := labels(valueTicks(test.unit, test.highest)); got != test.want {
			t.Errorf("values up to %g: %s\nwant %s", test.highest, got, test.want)
		}
	}
	for _, test := range []struct {
		end  float64
		want string
	}{
		{0.02, "0 | 2ms | 4ms | 6ms | 8ms | 10ms | 12ms | 14ms | 16ms | 18ms | 20ms"},
		{2.7, "0 | 500ms | 1s | 1.5s | 2s | 2.5s | "},
		{95, "0 | 10s | 20s | 30s | 40s | 50s | 1m | 1m10s | 1m20s | 1m30s | "},
		{86400 * 30, "0 | 4d | 8d | 12d | 16d | 20d | 24d | 28d | "},
	} {
		if got := labels(timeTicks(test.end, 10)); got != test.want {
			t.Errorf("times up to %g: %s\nwant %s", test.end, got, test.want)
		}
	}
}

func TestColumnsKeepGaps(t *testing.T) {
	line := Line{Steps: []Step{{0, 2, 1}, {2, 4, 3}, {6, 10, 5}}}
	got := fmt.Sprint(line.columns(10, 10))
	if want := "[1 1 3 3 NaN NaN 5 5 5 5]"; got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
}

func TestHighestLeavesOutFarLimits(t *testing.T) {
	panel := Panel{Unit: Bytes, Lines: []Line{
		{Name: "used", Steps: []Step{{0, 1, 100}}},
		{Name: "limit", Limit: true, Steps: []Step{{0, 1, 399}}},
		{Name: "far limit", Limit: true, Steps: []Step{{0, 1, 1e12}}},
	}}
	if got := panel.highest(); got != 100 {
		t.Errorf("with a far limit: %g, want 100", got)
	}
	if lines := panel.drawable(1024); len(lines) != 2 {
		t.Errorf("%d lines are drawn, want 2: the far limit does not fit", len(lines))
	}
	panel.Lines = panel.Lines[:2]
	if got := panel.highest(); got != 399 {
		t.Errorf("with a near limit: %g, want 399", got)
	}
}

func TestText(t *testing.T) {
	text := Text(examplePanels(), 60, 6, false)
	if strings.Contains(text, "\x1b[3") {
		t.Error("colours although none were asked for")
	}
	for _, want := range []string{"CPU, in cores\n", "needed", "not measured (no <PSI>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
