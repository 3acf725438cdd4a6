// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package repeat is about repeated runs of a command: what they used on average, how much that varies, and whether a
// difference between two series is more than that.
package repeat

import (
	"math"
	"slices"
)

// Statistics describe the values of repeated runs.
type Statistics struct {
	// N counts the runs with a value.
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	// StdDev is the standard deviation of the sample, with N-1; null for one value.
	StdDev *float64 `json:"stddev"`
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
}

// statisticsOf returns the statistics of at least one value.
func statisticsOf(values []float64) Statistics {
	s := Statistics{N: len(values), Min: slices.Min(values), Max: slices.Max(values)}
	for _, v := range values {
		s.Mean += v / float64(s.N)
	}
	if s.N > 1 {
		squares := 0.0
		for _, v := range values {
			squares += (v - s.Mean) * (v - s.Mean)
		}
		s.StdDev = new(math.Sqrt(squares / float64(s.N-1)))
	}
	return s
}

// fewest is the number of values from which on one can be an outlier.
const fewest = 5

// outliers returns the indexes of values that are far from the median: their modified Z-score by Iglewicz and Hoaglin
// is above 3.5, and they differ from the median by more than 1 %.
func outliers(values []float64) (found []int) {
	if len(values) < fewest {
		return nil
	}
	middle := median(values)
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - middle)
	}
	unit := median(away) / 0.6745
	if unit == 0 { // more than half of the values are equal
		for _, a := range away {
			unit += 1.253314 * a / float64(len(away))
		}
	}
	for i, a := range away {
		if a > 3.5*unit && a > math.Abs(middle)/100 {
			found = append(found, i)
		}
	}
	return found
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// estimate is a mean and how sure it is.
type estimate struct {
	mean float64
	// variance is the variance of one value, n the number of values, and freedom the degrees of freedom of the
	// variance; 0 if it is not known.
	variance   float64
	n, freedom float64
}

func (s Statistics) estimate() estimate {
	if s.StdDev == nil {
		return estimate{mean: s.Mean, n: 1}
	}
	return estimate{mean: s.Mean, variance: *s.StdDev * *s.StdDev, n: float64(s.N), freedom: float64(s.N - 1)}
}

// withinNoise reports whether two means differ by no more than such series do by chance, 19 times of 20 (Welch's
// test). A side of unknown variance is taken to vary as the other one; known is false if neither is known.
func withinNoise(a, b estimate) (within, known bool) {
	if a.freedom == 0 {
		a, b = b, a
	}
	if a.freedom == 0 {
		return false, false
	}
	ofA, ofB, freedom := a.variance/a.n, b.variance/b.n, a.freedom
	if b.freedom == 0 {
		ofB = a.variance / b.n
	} else if sum := ofA + ofB; sum > 0 {
		freedom = sum * sum / (ofA*ofA/a.freedom + ofB*ofB/b.freedom)
	}
	return math.Abs(a.mean-b.mean) <= studentT(freedom)*math.Sqrt(ofA+ofB), true
}

// studentT returns the value that Student's t exceeds in size once in 20 times. Between whole degrees of freedom it
// takes the lower one.
func studentT(freedom float64) float64 {
	quantiles := [...]float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
		2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	}
	n := int(max(1, freedom))
	if n <= len(quantiles) {
		return quantiles[n-1]
	}
	return 1.96 + 2.4/freedom
}
