// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import "testing"

func TestSamplingText(t *testing.T) {
	seconds := func(s float64) *float64 { return &s }
	measured := func(s float64) map[string]any { return map[string]any{"executor_sampling_interval_seconds": s} }
	for _, c := range []struct {
		record Record
		want   string
	}{
		{Record{}, ""},
		{Record{Interval: 1}, "every 1 s"},
		{Record{Interval: 1, FirstInterval: 0.25, WallSeconds: seconds(7)}, "every 250 ms"},
		{Record{Interval: 1, FirstInterval: 0.25, WallSeconds: seconds(7), SpanSeconds: seconds(70)}, "every 250 ms in the first minute, then every 1 s"},
		{Record{Interval: 1, FirstInterval: 0.25}, "every 250 ms in the first minute, then every 1 s"},
		{Record{Interval: 0.01, WallSeconds: seconds(7), Measurements: measured(0.01)}, "every 10 ms"},
		{Record{Interval: 0.01, WallSeconds: seconds(7), Measurements: measured(0.5)}, "every 10 ms, at the end every 500 ms"},
		{
			Record{Interval: 1, FirstInterval: 0.25, WallSeconds: seconds(7), Measurements: measured(0.75)},
			"every 250 ms, at the end every 750 ms",
		},
	} {
		if got := c.record.SamplingText(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
