// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// NoValue stands where there is no value: never 0.
const NoValue = "–"

// Text writes a value for people: 1.5 MiB, 12.34 s, 1.23 cores, 5.5 %, 2026-11-20 12:00:00 UTC. What is no number is
// NoValue. Only 0 itself is written as 0: a value too small for its last digit is written as less than it.
func (u Unit) Text(value float64) string {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return NoValue
	case u == Time:
		return timeText(value)
	case value < 0:
		return negative(u.Text(-value))
	}
	switch value = math.Abs(value); u { // -0 is 0
	case Seconds:
		return secondsText(value)
	case Bytes:
		return bytesText(value)
	case BytesPerSecond:
		return bytesText(value) + "/s"
	case Cores:
		return CoresText(value) + " cores"
	case Share:
		return shareText(value)
	case None, Time:
	}
	return countText(value)
}

// Beside writes a value beside another one: with their difference where both read alike, as in 1.24 s (+312 µs).
func (u Unit) Beside(value, other float64) string {
	text := u.Text(value)
	if value == other || text != u.Text(other) {
		return text
	}
	return text + " (" + u.Difference().Signed(value-other) + ")"
}

// Signed writes a change, with its sign.
func (u Unit) Signed(change float64) string {
	if change > 0 {
		return "+" + u.Text(change)
	}
	return u.Text(change)
}

// negative puts the sign before the text of a size: -3 MiB, and >-0.1 % for what is nearly 0.
func negative(text string) string {
	if rest, tiny := strings.CutPrefix(text, "<"); tiny {
		return ">-" + rest
	}
	return "-" + text
}

// bytesText writes bytes in units of 1024.
func bytesText(value float64) string {
	units := [...]string{" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"}
	if value > 0 && value < 0.5 {
		return "<1 B"
	}
	i := 0
	for value >= 1023.5 && i < len(units)-1 {
		value /= 1024
		i++
	}
	if i == 0 { // there are no parts of a byte
		return decimal(value, 0) + units[i]
	}
	return threeDigits(value) + units[i]
}

// secondsText writes a span of time as precisely as a reader needs it: 203 µs, 12.3 ms, 394 ms, 1.5 s, 5m0.5s,
// 2h37m2s, 2d4h12m.
func secondsText(value float64) string {
	switch {
	case value == 0:
		return "0 s"
	case value < 0.5e-6:
		return "<1 µs"
	case value < 0.999_5e-3:
		return decimal(value*1e6, 0) + " µs"
	case value < 999.5e-3:
		return threeDigits(value*1e3) + " ms"
	case value < 59.995:
		return trimZeros(decimal(value, 2)) + " s"
	case value >= 100*day.Seconds():
		return countText(math.Round(value/day.Seconds())) + "d"
	}
	step := time.Minute
	switch d := time.Duration(value * float64(time.Second)); {
	case d < time.Hour:
		step = 100 * time.Millisecond
	case d < day:
		step = time.Second
	}
	return clockText(time.Duration(value * float64(time.Second)).Round(step))
}

// timeText writes a moment to the second; not those before 1970 or after the year 9999.
func timeText(value float64) string {
	const end = 253_402_300_800
	if value < 0 || value >= end {
		return NoValue
	}
	return time.Unix(int64(value), 0).UTC().Format("2006-01-02 15:04:05 MST")
}

const day = 24 * time.Hour

// clockText writes a span in days, hours, minutes and seconds, and leaves out those that are 0 at its ends.
func clockText(d time.Duration) string {
	var b strings.Builder
	for _, unit := range [...]struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d > 0 && (b.Len() > 0 || d >= unit.size) {
			b.WriteString(strconv.FormatInt(int64(d/unit.size), 10) + unit.name)
			d %= unit.size
		}
	}
	if d > 0 {
		b.WriteString(strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s")
	}
	return b.String()
}

// AgeText writes how long ago something was, or how long it has lasted, in its two largest units: 12 s, 5m12s, 3h12m,
// 2d4h. It counts as a clock does: what has not passed is not counted.
func AgeText(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return clockText(d.Truncate(time.Second))
	case d < day:
		return clockText(d.Truncate(time.Minute))
	}
	return clockText(d.Truncate(time.Hour))
}

// CoresText writes busy CPUs without the word, for columns that name it: 1.00 is one core for the whole time.
func CoresText(value float64) string {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return NoValue
	case value < 0:
		return negative(CoresText(-value))
	case value == 0:
		return "0.00"
	case value < 0.000_5:
		return "<0.001"
	case value < 0.099_5:
		return decimal(value, 3)
	case value < 99.995:
		return decimal(value, 2)
	}
	return decimal(value, 1)
}

// shareText writes a share of 1 in percent.
func shareText(value float64) string {
	switch {
	case value == 0:
		return "0 %"
	case value < 0.000_5:
		return "<0.1 %"
	}
	return trimZeros(decimal(100*value, 1)) + " %"
}

// Counted is a number of things: 1 run, 2 runs, 12,345 runs.
func Counted[N int | int64 | float64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return countText(float64(n)) + " " + many
}

// countText writes a plain number, with commas between thousands: 12,345.
func countText(value float64) string {
	switch {
	case value > 0 && value < 0.005:
		return "<0.01"
	case value < 999.995 && value != math.Trunc(value):
		return trimZeros(decimal(value, 2))
	}
	text := decimal(value, 0)
	for i := len(text) - 3; i > 0 && !strings.Contains(text, "e"); i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// threeDigits writes a number with three significant digits, or all that stand before the point.
func threeDigits(value float64) string {
	switch {
	case value < 9.995:
		return trimZeros(decimal(value, 2))
	case value < 99.95:
		return trimZeros(decimal(value, 1))
	}
	return decimal(value, 0)
}

// decimal writes a number with so many digits behind the point, and without an exponent as long as it can be read.
func decimal(value float64, digits int) string {
	if value >= 1e15 {
		return strconv.FormatFloat(value, 'e', 2, 64)
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

func trimZeros(number string) string {
	if !strings.Contains(number, ".") || strings.Contains(number, "e") {
		return number
	}
	return strings.TrimRight(strings.TrimRight(number, "0"), ".")
}

// UnitOf returns the unit of a name: that of its row in the table, and of names that are no rows, such as those of a
// later version, what they end in.
func UnitOf(name string) Unit {
	if m, known := LookupName(name); known {
		return m.Unit
	}
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_bytes"):
		return Bytes
	case strings.HasSuffix(name, "_seconds"):
		return Seconds
	case strings.HasSuffix(name, "_cores"):
		return Cores
	}
	return None
}

// EscapeName returns a name, path or argument, which may have any bytes, as UTF-8, for records, JSON and metrics. Each
// byte that is not UTF-8 becomes \xNN. So does a backslash that begins what could be such an escape: different names
// stay different, and RawName returns them. It is called once, where a name is read, and not where it is shown.
func EscapeName(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, `\x`) {
		return name
	}
	var b strings.Builder
	for rest := name; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if _, like := escaped(rest); like || r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		} else {
			b.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return b.String()
}

// EscapeNames returns each of the names escaped.
func EscapeNames(names []string) []string {
	all := slices.Clone(names)
	for i, name := range all {
		all[i] = EscapeName(name)
	}
	return all
}

// RawName returns the name that EscapeName was called with.
func RawName(text string) string {
	var b strings.Builder
	for text != "" {
		before, rest, found := strings.Cut(text, `\x`)
		b.WriteString(before)
		if !found {
			break
		}
		if value, ok := escaped(text[len(before):]); ok {
			b.WriteByte(value)
			text = rest[2:]
			continue
		}
		b.WriteString(`\x`)
		text = rest
	}
	return b.String()
}

// escaped returns the byte of an escape at the beginning of a text: \x80 to \xff, or \x5c for the backslash.
func escaped(text string) (value byte, ok bool) {
	if len(text) < len(`\xNN`) || text[:2] != `\x` || text[2:4] != strings.ToLower(text[2:4]) {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:4], 16, 8)
	return byte(n), err == nil && (n >= utf8.RuneSelf || n == '\\')
}
