// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
