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
	return t.Format("2006-01-02 15:04:05 MST")
}

// formatClock writes a moment of today.
func formatClock(t time.Time) string {
	if t.IsZero() {
		return procstats.NoValue
	}
	return t.Format("15:04:05")
}

// formatDay writes a moment to the minute.
func formatDay(t time.Time) string {
	if t.IsZero() {
		return procstats.NoValue
	}
	return t.Format("Jan 2 15:04")
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
