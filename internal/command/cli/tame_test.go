// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"testing"
)

// TestTame lets colours and the control of lines pass, in pieces of any size.
func TestTame(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\ttext\r\n":                   "plain\ttext\r\n",
		"\x1b[1;31mred\x1b[0m\x1b[K":        "\x1b[1;31mred\x1b[0m\x1b[K",
		"a\x1b]52;c;Y29weQ==\x07b":          "ab",
		"a\x1b]0;title\x1b\\b":              "ab",
		"a\x1b[2J\x1b[Hb":                   "ab",
		"a\x1bcb\x1b[?1049hc":               "abc",
		"a\x1bP+q544e\x1b\\b":               "ab",
		"grüße, 世界 😀 ²":                     "grüße, 世界 😀 ²",
		"a\u009b2Jb":                        "a2Jb",
		"a\x9b2J\x00\x07\x0e\x7fb":          "a2Jb",
		"half\x1b[":                         "half",
		"a\x1b[" + string(make([]byte, 99)): "a",
	} {
		for size := 1; size <= len(text); size++ {
			var out bytes.Buffer
			w := Tame(&out)
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
					t.Fatal(n, err)
				}
			}
			if out.String() != want {
				t.Errorf("%q in pieces of %d is %q, want %q", text, size, out.String(), want)
			}
		}
	}
}
