// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"strings"
	"time"
	"unicode"

	"github.com/tachograph/tacho/procstats"
)

// formatTime writes a moment for people who may sit in another time zone.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return procstats.NoValue
	}
	return t.Local().Format("2006-01-02 15:04:05 MST") // plugins of drivers send UTC
}

// formatClock writes a moment of the last hours.
func formatClock(t time.Time) string {
	if t.IsZero() {
		return procstats.NoValue
	}
	return t.Local().Format("15:04:05")
}

// formatDay writes a moment to the minute.
func formatDay(t time.Time) string {
	if t.IsZero() {
		return procstats.NoValue
	}
	return t.Local().Format("Jan 2 15:04")
}

// formatEvent writes a moment that may be of another day.
func formatEvent(t time.Time) string {
	if day := time.DateOnly; t.Local().Format(day) != time.Now().Format(day) {
		return t.Local().Format("Jan 2 15:04:05")
	}
	return formatClock(t)
}

// printable shows what a name has in it that would not be seen, or that would turn the text around.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
