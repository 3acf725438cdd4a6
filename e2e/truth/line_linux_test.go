// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// line is one number. What is not known is NaN.
type line struct {
	what      string
	reported  float64
	source    string
	guarantee procstats.Guarantee
	true      float64
	unit      procstats.Unit
	// bound says in words what the number is held to.
	bound string
	// fault says what is wrong; empty where the bound is kept.
	fault string
}

// hold logs a number beside the truth, and fails the test if its bound is broken.
func (l line) hold(t *testing.T) {
	t.Helper()
	report := t.Logf
	if l.fault != "" {
		report = t.Errorf
	}
	report("%s: reported %s (%s, %s), true %s, %+.2f %% off, bound %s: %s", l.what, quantity(l.reported, l.unit),
		l.source, l.guarantee, quantity(l.true, l.unit), 100*(l.reported/l.true-1), l.bound, cmp.Or(l.fault, "ok"))
}

func quantity(value float64, unit procstats.Unit) string {
	switch {
	case math.IsNaN(value):
		return "-"
	case unit == procstats.Seconds:
		return fmt.Sprintf("%.4f s", value)
	case unit == procstats.Bytes && math.Abs(value) < 1<<20:
		return fmt.Sprintf("%.1f KiB", value/(1<<10))
	case unit == procstats.Bytes:
		return fmt.Sprintf("%.2f MiB", value/(1<<20))
	}
	return fmt.Sprintf("%g", value)
}

// headline fills a line with a headline of a record.
func headline(r *record.Record, name string, unit procstats.Unit) line {
	h, found := r.Headline[name]
	l := line{what: name, unit: unit, reported: math.NaN(), true: math.NaN(), source: h.Source, guarantee: h.Guarantee}
	if found && h.Value != nil {
		l.reported = *h.Value
	} else {
		l.source = h.Reason
	}
	return l
}

// measurement fills a line with a final measurement of a record.
func measurement(r *record.Record, name string) line {
	row, known := procstats.LookupName(name)
	l := line{what: name, unit: row.Unit, reported: math.NaN(), true: math.NaN(), guarantee: row.Guarantee}
	if !known {
		l.fault = "not in the table of measurements"
	}
	if value, found := r.Measurements[name].(float64); found {
		l.reported = value
	} else {
		l.source = r.Absent[name]
	}
	return l
}
