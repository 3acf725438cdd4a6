// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"io"
)

// Tame returns a writer that passes text, colors and the control of lines on to a terminal, and nothing else: the
// output of a task must not set the clipboard, the title or the keys of its reader, or clear the screen. The sequences
// are those of ECMA-48 and of xterm.
func Tame(to io.Writer) io.Writer { return &tame{to: to} }

// TameTerminal is Tame for a terminal, and to itself for anything else.
func TameTerminal(to io.Writer) io.Writer {
	if IsTerminal(to) {
		return Tame(to)
	}
	return to
}

type tame struct {
	to       io.Writer
	sequence []byte // begun and not ended
	// text says that the sequence is one whose text ends with BEL or ESC \, such as the title of the window.
	text bool
	// utf8 is how many bytes of a character are to come: they are no C1 controls.
	utf8 int
}

// mostSequence bounds what is held of a sequence; the rest of a longer one is dropped with it.
const mostSequence = 64

const escape, bell = 0x1b, 0x07

// Write implements io.Writer.
func (t *tame) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for _, b := range p {
		out = t.pass(out, b)
	}
	if _, err := t.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass appends what a byte lets pass.
func (t *tame) pass(out []byte, b byte) []byte {
	if len(t.sequence) > 0 {
		return t.within(out, b)
	}
	switch {
	case b == escape:
		t.sequence = append(t.sequence, b)
	case t.utf8 > 0 && b&0xc0 == 0x80:
		t.utf8--
		return append(out, b)
	case b >= ' ' && b < 0x7f, b == '\n', b == '\r', b == '\t', b == '\b':
		return append(out, b)
	case b >= 0xc3: // 0xc2 begins the C1 controls and some signs
		t.utf8 = 1
		if b >= 0xe0 {
			t.utf8++
		}
		if b >= 0xf0 {
			t.utf8++
		}
		return append(out, b)
	case b == 0xc2:
		t.sequence, t.text = append(t.sequence, b), false
	}
	return out
}

// within takes a byte of a sequence, which passes as a whole or not at all.
func (t *tame) within(out []byte, b byte) []byte {
	if len(t.sequence) < mostSequence {
		t.sequence = append(t.sequence, b)
	}
	s := t.sequence
	switch {
	case s[0] == 0xc2: // of two bytes: a sign, or a control
		if b >= 0xa0 {
			out = append(out, s...)
		}
		t.end()
	case t.text:
		if b == bell || b == '\\' && s[max(0, len(s)-2)] == escape {
			t.end()
		}
	case len(s) == 2 && bytes.IndexByte([]byte("]PX^_"), b) >= 0:
		t.text = true
	case len(s) == 2 && b != '[':
		t.end()
	case len(s) > 2 && b >= '@' && b <= '~':
		if (b == 'm' || b == 'K') && len(s) < mostSequence {
			out = append(out, s...)
		}
		t.end()
	}
	return out
}

func (t *tame) end() { t.sequence, t.text = t.sequence[:0], false }
