// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tachograph/tacho/procstats"
)

// dash stands where there is no value: never 0.
const dash = "–"

// formatValue writes a value in its unit, for people.
func formatValue(unit procstats.Unit, value float64) string {
	switch unit {
	case procstats.Bytes:
		return formatBytes(value)
	case procstats.Seconds:
		return formatSeconds(value)
	case procstats.Cores:
		return strconv.FormatFloat(value, 'f', 2, 64) + " cores"
	case procstats.None:
	}
	return trimZeros(strconv.FormatFloat(value, 'f', 2, 64))
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
	if i > 0 && math.Abs(value) < 99.95 {
		digits = 1
	}
	return trimZeros(strconv.FormatFloat(value, 'f', digits, 64)) + " " + units[i]
}

// formatSeconds writes a span of time; from ten minutes on in hours, minutes and seconds.
func formatSeconds(value float64) string {
	size := math.Abs(value)
	switch {
	case value == 0:
		return "0 s"
	case size < 0.000_999_5:
		return strconv.FormatFloat(value*1e6, 'f', 0, 64) + " µs"
	case size < 0.099_95:
		return trimZeros(strconv.FormatFloat(value*1e3, 'f', 1, 64)) + " ms"
	case size < 0.999_5:
		return strconv.FormatFloat(value*1e3, 'f', 0, 64) + " ms"
	case size < 600:
		return strconv.FormatFloat(value, 'f', 2, 64) + " s"
	}
	step := 100 * time.Millisecond
	if size >= 3600 {
		step = time.Second
	}
	return time.Duration(value * float64(time.Second)).Round(step).String()
}

// formatShare writes part of whole in percent; the dash where there is no whole.
func formatShare(part, whole float64) string {
	switch share := part / whole; {
	case whole == 0:
		return dash
	case share > 0 && share < 0.0005:
		return "<0.1 %"
	}
	return strconv.FormatFloat(100*part/whole, 'f', 1, 64) + " %"
}

// formatExact writes a number as files have it: no unit, no rounding.
func formatExact(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func trimZeros(number string) string {
	if !strings.Contains(number, ".") {
		return number
	}
	return strings.TrimRight(strings.TrimRight(number, "0"), ".")
}

// printable takes out what a terminal would obey: names and command lines are anybody's bytes.
func printable(text string) string {
	if isPrintable(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// commandLine writes a command so that a shell would read it back.
func commandLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = shellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

func shellQuote(arg string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./:=,@%+", r)
	}
	switch {
	case arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0:
		return arg
	case isPrintable(arg):
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	// ANSI-C quoting, as bash and zsh have it.
	return "$'" + strings.ReplaceAll(printable(strings.ReplaceAll(arg, `\`, `\\`)), "'", `\'`) + "'"
}

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}
