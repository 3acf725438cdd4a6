// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// table is reported against true, line by line.
type table struct{ lines []line }

// line is one number. What is not known is NaN.
type line struct {
	mode, workload, what string
	reported             float64
	source               string
	guarantee            procstats.Guarantee
	true                 float64
	unit                 procstats.Unit
	// bound says in words what the number is held to.
	bound string
	// fault says what is wrong; empty where the bound is kept.
	fault string
}

// add puts a line into the table and fails the test if its bound is broken.
func (tab *table) add(t *testing.T, l line) {
	t.Helper()
	tab.lines = append(tab.lines, l)
	if l.fault != "" {
		t.Errorf("%s: reported %s (%s, %s), true %s, bound %s: %s",
			l.what, quantity(l.reported, l.unit), l.source, l.guarantee, quantity(l.true, l.unit), l.bound, l.fault)
	}
}

func (tab *table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODE\tWORKLOAD\tWHAT\tREPORTED\tTRUE\tERROR\tGUARANTEE\tSOURCE\tBOUND\t")
	for _, l := range tab.lines {
		verdict := "ok"
		if l.fault != "" {
			verdict = "BROKEN: " + l.fault
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.mode, l.workload, l.what,
			quantity(l.reported, l.unit), quantity(l.true, l.unit), l.deviation(), l.guarantee, l.source, l.bound, verdict)
	}
	w.Flush()
	return b.String()
}

// deviation is the error, relative where that says anything.
func (l line) deviation() string {
	off := l.reported - l.true
	switch {
	case math.IsNaN(off):
		return "-"
	case l.true == 0:
		return quantity(off, l.unit)
	case l.unit == procstats.Seconds:
		return fmt.Sprintf("%+.1f ms (%+.2f %%)", 1000*off, 100*off/l.true)
	}
	return fmt.Sprintf("%+.2f %%", 100*off/l.true)
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
