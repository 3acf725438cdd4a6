// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable escapes whatever a terminal could interpret: file names and command lines are untrusted bytes.
func Printable(text string) string {
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

// CommandLine quotes a command for the shell.
func CommandLine(args []string) string {
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
	// ANSI-C quoting of bash and zsh.
	return "$'" + strings.ReplaceAll(Printable(strings.ReplaceAll(arg, `\`, `\\`)), "'", `\'`) + "'"
}

// PrintJSON prints a value as indented JSON, in one write.
func PrintJSON(w io.Writer, value any) error {
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

// OneLine joins the lines of a text and escapes the rest like Printable.
func OneLine(text string) string {
	return Printable(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// OrList returns "a, b or c".
func OrList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// AndList returns "a, b and c".
func AndList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// SomeOf returns a comma-separated list of at most four words and the number of the others.
func SomeOf(words []string) string {
	const few = 4
	if len(words) <= few {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:few], ", "), len(words)-few)
}

// Markdown escapes what Markdown and HTML would interpret.
func Markdown(text string) string {
	var b strings.Builder
	for _, r := range OneLine(text) {
		if strings.ContainsRune("\\`*_{}[]<>#|~&$", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
