// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// CmdlineRead is how many bytes of /proc/PID/cmdline are read; a command line can have megabytes.
	CmdlineRead = 2048
	// CmdlineText is the most bytes of a command line as text.
	CmdlineText = 512
	// cut ends a text that is not all of it.
	cut = "…"
)

// ParseProcCmdline returns the arguments in the first CmdlineRead bytes of /proc/PID/cmdline as text on one line, with
// spaces between them; empty without arguments, as for a kernel thread or a zombie. A process can write anything
// over its arguments: what is empty, or has in it spaces, quotes, backslashes or bytes that are not printable, is
// quoted as in Go, and no control character is left. A text longer than CmdlineText bytes is cut and ends in "…".
//
// NULs at the end are no arguments: a process that shortens its title leaves them.
func ParseProcCmdline(data []byte) string {
	whole := len(data) < CmdlineRead
	data = bytes.TrimRight(data, "\x00")
	if len(data) == 0 {
		return ""
	}
	var text []byte
	for arg := range bytes.SplitSeq(data, []byte{0}) {
		if len(text) > 0 {
			text = append(text, ' ')
		}
		if text = appendArgument(text, arg); len(text) > CmdlineText {
			break
		}
	}
	if whole && len(text) <= CmdlineText {
		return string(text)
	}
	end := min(len(text), CmdlineText-len(cut))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + cut
}

// appendArgument appends an argument, quoted where it could be misread.
func appendArgument(text, arg []byte) []byte {
	s := string(arg)
	if s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, misread) {
		return append(text, s...)
	}
	return strconv.AppendQuote(text, s)
}

// misread reports whether an argument with a character has to be quoted.
func misread(r rune) bool {
	return r == ' ' || r == '"' || r == '\'' || r == '\\' || !unicode.IsPrint(r)
}
