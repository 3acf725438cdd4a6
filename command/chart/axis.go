// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tick is a place on an axis and what is written there.
type tick struct {
	value float64
	label string
}

// valueTicks returns ticks from 0 to at least highest, in steps that people like in this unit.
func valueTicks(unit Unit, highest float64) []tick {
	highest = max(highest, lowestTop(unit))
	step := valueStep(unit, highest)
	var ticks []tick
	for i := 0; ; i++ {
		value := float64(i) * step
		ticks = append(ticks, tick{value, formatTick(unit, value)})
		if i > 0 && value >= highest*(1-1e-9) {
			return ticks
		}
	}
}

// mostTicks is how many steps an axis of values has at most.
const mostTicks = 5

func valueStep(unit Unit, highest float64) float64 {
	if unit == Bytes || unit == BytesPerSecond {
		return math.Exp2(math.Ceil(math.Log2(highest / mostTicks)))
	}
	return decimalStep(highest)
}

// lowestTop is the least an axis reaches up to: next to nothing shall look like next to nothing.
func lowestTop(unit Unit) float64 {
	switch unit {
	case Bytes, BytesPerSecond:
		return 1024
	case Share:
		return 0.05
	case Cores:
	}
	return 0.1
}

// decimalStep is 1, 2 or 5 times a power of ten.
func decimalStep(highest float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(highest/mostTicks)))
	for _, factor := range []float64{1, 2, 5} {
		if highest <= mostTicks*factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// timeSteps are the steps that people like on a clock, in seconds.
//
//nolint:gochecknoglobals // a constant list
var timeSteps = [...]float64{
	0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30,
	60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
}

// timeStep is the shortest step of which at most most are needed from 0 to end.
func timeStep(end float64, most int) float64 {
	step := 0.0
	for _, candidate := range timeSteps {
		if step = candidate; end/step <= float64(most) {
			break
		}
	}
	for end/step > float64(most) {
		step *= 2
	}
	return step
}

// timeTicks returns at most most steps from 0 to end, with a nameless tick at the end where none falls there.
func timeTicks(end float64, most int) []tick {
	step := timeStep(end, most)
	var ticks []tick
	for i := 0; float64(i)*step <= end*(1+1e-9); i++ {
		ticks = append(ticks, tick{float64(i) * step, formatTime(float64(i) * step)})
	}
	if ticks[len(ticks)-1].value < end {
		ticks = append(ticks, tick{value: end})
	}
	return ticks
}

// formatTime writes a time since the start, leaving out what is zero: 0, 250ms, 2.5s, 1m30s, 2h.
func formatTime(seconds float64) string {
	switch {
	case seconds == 0:
		return "0"
	case seconds < 1:
		return formatDecimal(seconds*1000) + "ms"
	case seconds < 60:
		return formatDecimal(seconds) + "s"
	}
	whole := int64(math.Round(seconds))
	var b strings.Builder
	for _, unit := range []struct {
		letter  byte
		seconds int64
	}{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}} {
		if n := whole / unit.seconds; n > 0 {
			fmt.Fprintf(&b, "%d%c", n, unit.letter)
			whole %= unit.seconds
		}
	}
	return b.String()
}

// formatTick writes a value of an axis.
func formatTick(unit Unit, value float64) string {
	switch unit {
	case Bytes:
		return formatBytes(value)
	case BytesPerSecond:
		return formatBytes(value) + "/s"
	case Share:
		return formatDecimal(value*100) + " %"
	case Cores:
	}
	return formatDecimal(value)
}

func formatBytes(value float64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for value >= 1023.5 && i < len(units)-1 {
		value /= 1024
		i++
	}
	return formatDecimal(value) + " " + units[i]
}

// formatDecimal writes at most two digits after the point.
func formatDecimal(value float64) string {
	text := strconv.FormatFloat(value, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
