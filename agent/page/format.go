// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tachograph/tacho/procstats"
)

// dash stands where there is no value: never 0.
const dash = "–"

// formatValue writes a value in its unit.
func formatValue(unit procstats.Unit, value float64) string {
	switch unit {
	case procstats.Bytes:
		return formatBytes(value)
	case procstats.Seconds:
		return formatSeconds(value)
	case procstats.Cores:
		return formatCores(value)
	case procstats.None:
	}
	return groupDigits(strconv.FormatFloat(value, 'f', -1, 64))
}

// formatBytes writes bytes in units of 1024, with three digits that count.
func formatBytes(value float64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for math.Abs(value) >= 1023.5 && i < len(units)-1 {
		value /= 1024
		i++
	}
	digits := 0
	if i > 0 && math.Abs(value) < 9.995 {
		digits = 2
	} else if i > 0 && math.Abs(value) < 99.95 {
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + " " + units[i]
}

// formatRate writes bytes a second; less than one is none to people.
func formatRate(value float64) string {
	if math.Abs(value) < 0.5 {
		return "0 B/s"
	}
	return formatBytes(value) + "/s"
}

// formatCores writes busy CPUs: 1.00 is one core all the time.
func formatCores(value float64) string {
	switch {
	case value != 0 && math.Abs(value) < 0.001:
		return "<0.001"
	case math.Abs(value) < 0.0995:
		return strconv.FormatFloat(value, 'f', 3, 64)
	case math.Abs(value) < 99.95:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
	return strconv.FormatFloat(value, 'f', 1, 64)
}

// formatSeconds writes a time that was used.
func formatSeconds(value float64) string {
	switch size := math.Abs(value); {
	case value == 0:
		return "0 s"
	case size < 0.0995:
		return strconv.FormatFloat(value*1e3, 'f', 1, 64) + " ms"
	case size < 0.9995:
		return strconv.FormatFloat(value*1e3, 'f', 0, 64) + " ms"
	case size < 600:
		return strconv.FormatFloat(value, 'f', 2, 64) + " s"
	case size > 1e9:
		return strconv.FormatFloat(value, 'e', 3, 64) + " s"
	}
	return formatSpan(time.Duration(value * float64(time.Second)))
}

// formatShare writes a share of 1 in percent.
func formatShare(value float64) string {
	switch {
	case value > 0 && value < 0.001:
		return "<0.1 %"
	case math.Abs(value) < 0.0995:
		return strconv.FormatFloat(value*100, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(value*100, 'f', 0, 64) + " %"
}

// formatSpan writes a time span in its two largest units.
func formatSpan(d time.Duration) string {
	switch {
	case d < 0:
		return dash
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min " + strconv.Itoa(int(d.Seconds())%60) + " s"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h " + strconv.Itoa(int(d.Minutes())%60) + " min"
	}
	return strconv.Itoa(int(d.Hours())/24) + " d " + strconv.Itoa(int(d.Hours())%24) + " h"
}

// formatAge writes how old something is, in whole seconds: it is written anew every second.
func formatAge(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.Itoa(int(max(0, d).Seconds())) + " s"
	}
	return formatSpan(d)
}

// formatTime writes a moment for people who may sit in another time zone.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return dash
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// formatClock writes a moment of today.
func formatClock(t time.Time) string {
	if t.IsZero() {
		return dash
	}
	return t.Format("15:04:05")
}

// groupDigits sets thin spaces between the thousands of a decimal number.
func groupDigits(s string) string {
	whole, fraction, point := strings.Cut(s, ".")
	sign := ""
	if rest, negative := strings.CutPrefix(whole, "-"); negative {
		sign, whole = "−", rest
	}
	if len(fraction) > 3 {
		fraction = fraction[:3]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(digit)
	}
	if point {
		b.WriteString("." + fraction)
	}
	return b.String()
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
