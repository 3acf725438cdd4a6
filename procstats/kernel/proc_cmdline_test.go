// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestParseProcCmdline(t *testing.T) {
	long := strings.Repeat("é", CmdlineText)
	for data, want := range map[string]string{
		"":                                 "", // a kernel thread, a zombie
		"\x00\x00\x00":                     "",
		"sh\x00":                           "sh",
		"sh":                               "sh", // rewritten without a NUL
		"sh\x00-c\x00echo $HOME; ls\x00":   `sh -c "echo $HOME; ls"`,
		"bash\x00\x00x\x00":                `bash "" x`,
		"a\x00b\x00\x00\x00\x00\x00":       "a b", // a title that was longer
		"nginx: worker process":            `"nginx: worker process"`,
		"x\x00it's\x00\"q\"\x00\\n":        `x "it's" "\"q\"" "\\n"`,
		"\x1b[2J\x1b]0;t\x07\x00\r\n":      `"\x1b[2J\x1b]0;t\a" "\r\n"`,
		"a\xff\xfeb\x00é\x00日本":            `"a\xff\xfeb" é 日本`,
		"a\u202eb\x00c\u200bd\x00e\u00a0f": `"a\u202eb" "c\u200bd" "e\u00a0f"`, // right to left, zero width, no-break space
		"\x7f\u0085\x00\u2028":             `"\x7f\u0085" "\u2028"`,
		strings.Repeat("x", CmdlineText):   strings.Repeat("x", CmdlineText),
		strings.Repeat("x", CmdlineText+1): strings.Repeat("x", CmdlineText-3) + "…",
		strings.Repeat("x", CmdlineRead):   strings.Repeat("x", CmdlineText-3) + "…",
		long:                               long[:CmdlineText-4] + "…", // not within a character
		strings.Repeat("\x00", CmdlineRead-1) + "x": strings.Repeat(`"" `, CmdlineText)[:CmdlineText-3] + "…",
	} {
		testkit.Equal(t, ParseProcCmdline([]byte(data)), want, "%.40q", data)
	}
}

func FuzzParseProcCmdline(f *testing.F) {
	for _, data := range []string{"", "sh\x00-c\x00sleep 1\x00", "nginx: worker", "\x1b[2J\x00\xff\xfe", strings.Repeat("é\x00", 700)} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := ParseProcCmdline(data)
		if len(text) > CmdlineText || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q becomes %q", data, text)
		}
		if empty := strings.Trim(string(data), "\x00") == ""; (text == "") != empty && !(empty && len(data) >= CmdlineRead) {
			t.Errorf("%q becomes %q", data, text)
		}
	})
}
