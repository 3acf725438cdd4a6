// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"math"
	"strconv"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Tick is a place on the time axis and what is written there.
type Tick struct {
	At    time.Time
	Label string
}

// leastTop is the least an axis of values reaches up to: next to nothing looks like next to nothing.
func leastTop(unit procstats.Unit) float64 {
	switch unit {
	case procstats.Bytes:
		return 1 << 20
	case procstats.BytesPerSecond:
		return 64 << 10
	case procstats.None, procstats.Seconds, procstats.Cores, procstats.Share, procstats.Time:
	}
	return 0.1
}

// mostSteps is how many steps an axis of values has at most.
const mostSteps = 4

// valueTicks returns the labels of an axis from 0 that holds a value, the lowest first and at even distances, and the
// value at its top.
func valueTicks(unit procstats.Unit, highest float64) (labels []string, top float64) {
	highest = max(highest, leastTop(unit))
	step := valueStep(unit, highest)
	steps := max(1, int(math.Ceil(highest/step-1e-9)))
	for i := range steps + 1 {
		labels = append(labels, tickText(unit, float64(i)*step))
	}
	return labels, float64(steps) * step
}

// valueStep is 1, 2, 2.5 or 5 times a power of ten, and of bytes a power of two.
func valueStep(unit procstats.Unit, highest float64) float64 {
	if unit == procstats.Bytes || unit == procstats.BytesPerSecond {
		return math.Exp2(math.Ceil(math.Log2(highest/mostSteps) - 1e-9))
	}
	power := math.Pow(10, math.Floor(math.Log10(highest/mostSteps)))
	for _, factor := range [...]float64{1, 2, 2.5, 5} {
		if highest <= mostSteps*factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// tickText writes a round value.
func tickText(unit procstats.Unit, value float64) string {
	switch {
	case value == 0:
		return "0"
	case value < 1000 && (unit == procstats.Cores || unit == procstats.None):
		return strconv.FormatFloat(value, 'g', 6, 64)
	}
	return unit.Text(value)
}

// timeStep is the shortest round step of which at most most fit into a span.
func timeStep(span time.Duration, most int) time.Duration {
	const day = 24 * time.Hour
	step := time.Duration(0)
	for _, candidate := range [...]time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day,
	} {
		if step = candidate; span <= time.Duration(most)*step {
			return step
		}
	}
	for span > time.Duration(most)*step {
		step *= 2
	}
	return step
}

// RoundSpan is the shortest round span that is not shorter than another.
func RoundSpan(span time.Duration) time.Duration { return timeStep(span, 1) }

// TicksSince returns at most most+1 ticks that count the time since the start of an axis.
func TicksSince(since, until time.Time, most int) []Tick {
	span := until.Sub(since)
	step := timeStep(span, most)
	var ticks []Tick
	for at := time.Duration(0); at <= span; at += step {
		ticks = append(ticks, Tick{since.Add(at), tickText(procstats.Seconds, at.Seconds())})
	}
	return ticks
}

// TicksBefore returns ticks at even distances, which count back from the end of an axis; last is the label of the end.
func TicksBefore(since, until time.Time, last string) []Tick {
	const most = 6
	span := until.Sub(since)
	step := timeStep(span, most)
	if span%step != 0 {
		step = max(1, span/4)
	}
	var ticks []Tick
	for back := span - span%step; back >= step; back -= step {
		ticks = append(ticks, Tick{until.Add(-back), "−" + procstats.Seconds.Text(back.Seconds())})
	}
	return append(ticks, Tick{until, last})
}
