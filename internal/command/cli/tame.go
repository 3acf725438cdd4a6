// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"io"
	"regexp"
	"unicode/utf8"
)

// Tame returns a writer that passes text, colors and the control of lines on to a terminal, and nothing else: the
// output of a task must not set the clipboard, the title or the keys of its reader, or clear the screen. The sequences
// are those of ECMA-48 and of xterm.
func Tame(to io.Writer) io.Writer {
	return &tame{to: to, tokens: regexp.MustCompile(tokens)}
}

// TameTerminal is Tame for a terminal, and to itself for anything else.
func TameTerminal(to io.Writer) io.Writer {
	if IsTerminal(to) {
		return Tame(to)
	}
	return to
}

type tame struct {
	to     io.Writer
	tokens *regexp.Regexp
	rest   []byte // of the text until now: the beginning of a character or a sequence
}

// mostSequence bounds what is held of a sequence; a longer one does not pass.
const mostSequence = 64

// tokens matches a piece of a text: in its group what passes, text and the sequences m and K; then what is dropped:
// control sequences, strings such as the title of the window, other sequences, and single characters.
const tokens = `(?s)^(?:([\n\r\t\x08]+|[^\x00-\x1f\x7f-\x9f\x{fffd}]+|\x1b\[[ -?]{0,60}[mK])|` +
	`\x1b\[[^@-~]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[^\[\]PX^_]|[^\x1b])`

// Write implements io.Writer.
func (t *tame) Write(p []byte) (int, error) {
	text, out := append(t.rest, p...), make([]byte, 0, len(p))
	for utf8.FullRune(text) {
		token := t.tokens.FindSubmatchIndex(text)
		if token == nil {
			break // the rest of the sequence is to come
		}
		// Bytes that are no UTF-8 match like this character.
		if token[2] == 0 || bytes.HasPrefix(text, []byte("\uFFFD")) {
			out = append(out, text[:token[1]]...)
		}
		text = text[token[1]:]
	}
	if last := len(text) - 1; last >= mostSequence {
		text = append(text[:mostSequence], text[last]) // the last byte may be the first of two that end it
	}
	t.rest = append([]byte(nil), text...)
	if _, err := t.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
