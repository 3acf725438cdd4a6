// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"reflect"
	"time"
	"unicode"

	"github.com/tachograph/tacho/procstats"
)

// formatTime writes a moment for people who may sit in another time zone.
func formatTime(t time.Time) string { return formatAs(t, "2006-01-02 15:04:05 MST") }

// formatClock writes a moment of the last hours.
func formatClock(t time.Time) string { return formatAs(t, time.TimeOnly) }

// formatDay writes a moment to the minute.
func formatDay(t time.Time) string { return formatAs(t, "Jan 2 15:04") }

// formatAs writes a moment in the agent's time zone: plugins of drivers send UTC.
func formatAs(t time.Time, layout string) string {
	if t.IsZero() {
		return procstats.NoValue
	}
	return t.Local().Format(layout)
}

// formatEvent writes a moment that may be of another day.
func formatEvent(t time.Time) string {
	if day := time.DateOnly; t.Local().Format(day) != time.Now().Format(day) {
		return t.Local().Format("Jan 2 15:04:05")
	}
	return formatClock(t)
}

// visible replaces what would not be seen in a page, or would turn its text around: names and logs may contain
// anything. It is applied once, to all that is rendered; markup is the templates' business.
func visible(rendered []byte) []byte {
	if bytes.IndexFunc(rendered, isHidden) < 0 {
		return rendered
	}
	return bytes.Map(func(r rune) rune {
		if isHidden(r) {
			return unicode.ReplacementChar
		}
		return r
	}, rendered)
}

func isHidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' }

// textOf writes a number of one of the types that there are; one that is not known is a dash.
func textOf(unit procstats.Unit) func(value any) string {
	return func(value any) string {
		if n, ok := numberIn(value); ok {
			return unit.Text(n)
		}
		return procstats.NoValue
	}
}

// numberIn returns a number of one of the types that there are; ok is false if it is not known.
func numberIn(value any) (n float64, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(value))
	switch {
	case v.CanFloat():
		return v.Float(), true
	case v.CanInt():
		return float64(v.Int()), true
	}
	return 0, false
}

// countedText writes a number of things.
func countedText(value any, one, many string) string {
	n, _ := numberIn(value)
	return procstats.Counted(n, one, many)
}

// shareText writes a part of a whole.
func shareText(part, whole any) string {
	of, known := numberIn(whole)
	if n, ok := numberIn(part); ok && known && of > 0 {
		return procstats.Share.Text(n / of)
	}
	return procstats.NoValue
}
