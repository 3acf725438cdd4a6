// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"math"
	"strconv"

	"github.com/tachograph/tacho/procstats"
)

// scale is what a chart's values are.
type scale string

// The scales of charts; the script writes values in the same words.
const (
	scaleCores scale = "cores"
	scaleBytes scale = "bytes"
	scaleRate  scale = "rate"
	scaleShare scale = "share"
)

// format writes a value.
func (s scale) format(value float64) string {
	switch s {
	case scaleBytes:
		return procstats.Bytes.Text(value)
	case scaleRate:
		return procstats.BytesPerSecond.Text(value)
	case scaleShare:
		return procstats.Share.Text(value)
	case scaleCores:
	}
	return procstats.CoresText(value)
}

// least is the least an axis reaches up to: next to nothing shall look like next to nothing.
func (s scale) least() float64 {
	switch s {
	case scaleBytes:
		return 1 << 20
	case scaleRate:
		return 64 << 10
	case scaleShare, scaleCores:
	}
	return 0.1
}

// mostSteps is how many steps an axis of values has at most.
const mostSteps = 4

// axis returns the top of an axis from 0 that holds a value, and its labels at even distances, the top first.
func (s scale) axis(highest float64) (top float64, labels []string) {
	step := s.step(max(highest, s.least()))
	steps := max(1, int(math.Ceil(highest/step-1e-9)))
	for float64(steps)*step < s.least() {
		steps++
	}
	for i := steps; i >= 0; i-- {
		labels = append(labels, s.tick(clean(float64(i)*step)))
	}
	return float64(steps) * step, labels
}

func (s scale) tick(value float64) string {
	switch s {
	case scaleCores:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case scaleShare:
		return strconv.FormatFloat(math.Round(value*1e4)/100, 'f', -1, 64) + " %"
	case scaleBytes, scaleRate:
	}
	if value == 0 {
		return "0"
	}
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for value >= 1024 && i < len(units)-1 {
		value /= 1024
		i++
	}
	suffix := ""
	if s == scaleRate {
		suffix = "/s"
	}
	return strconv.FormatFloat(value, 'f', -1, 64) + " " + units[i] + suffix
}

// step is a distance that people like: 1, 2 or 5 times a power of ten; of bytes, 1 or 2 or 4 … units of 1024.
func (s scale) step(highest float64) float64 {
	if s == scaleBytes || s == scaleRate {
		return math.Exp2(math.Ceil(math.Log2(highest/mostSteps) - 1e-9))
	}
	power := math.Pow(10, math.Floor(math.Log10(highest/mostSteps)))
	for _, factor := range [...]float64{1, 2, 2.5, 5} {
		if highest <= mostSteps*factor*power*(1+1e-9) {
			return clean(factor * power)
		}
	}
	return clean(10 * power)
}

// clean takes off what powers of ten leave behind.
func clean(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}
