// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import "unicode/utf8"

// namedKeys maps what terminals send for keys without a rune, xterm's sequences.
func namedKeys() map[string]string {
	return map[string]string{
		"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
		"\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
		"\x1b": "esc", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x03": "ctrl-c", "\x0c": "ctrl-l",
	}
}

// parseKeys parses the keys in one read of a terminal. Unknown sequences are skipped.
func parseKeys(text []byte) []key {
	named := namedKeys()
	var keys []key
	for len(text) > 0 {
		n := sequence(text)
		if name, ok := named[string(text[:n])]; ok {
			keys = append(keys, key{name: name})
		} else if r, size := utf8.DecodeRune(text); size == n && r >= ' ' && r != utf8.RuneError {
			keys = append(keys, key{r: r})
		}
		text = text[n:]
	}
	return keys
}

// sequence returns the length of the first key in bytes: an escape sequence (ECMA-48, 5.4) or a rune.
func sequence(text []byte) int {
	if text[0] != 0x1b || len(text) == 1 {
		_, size := utf8.DecodeRune(text)
		return size
	}
	switch text[1] {
	case '[':
		for i := 2; i < len(text); i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return i + 1
			}
		}
		return len(text)
	case 'O':
		return min(3, len(text))
	}
	return 1
}
