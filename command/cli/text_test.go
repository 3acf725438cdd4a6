// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"testing"
)

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"go", "build", "./..."}, "go build ./..."},
		{[]string{"sh", "-c", "echo it's"}, `sh -c 'echo it'\''s'`},
		{[]string{"printf", ""}, "printf ''"},
		{[]string{"printf", "a\nb\x1b[31m'\\\xff"}, `printf $'a\nb\x1b[31m\'\\\xff'`},
		{[]string{"echo", "größer"}, "echo 'größer'"},
	} {
		if got := CommandLine(test.args); got != test.want {
			t.Errorf("%q: %s, want %s", test.args, got, test.want)
		}
	}
}

func TestPrintableTakesOutWhatTerminalsObey(t *testing.T) {
	for text, want := range map[string]string{
		"plain größer": "plain größer",
		"a\x1b[2Jb":    `a\x1b[2Jb`,
		"bad\xff":      `bad\xff`,
		"\u202etxt":    `\u202etxt`,
		"tab\t":        `tab\t`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	long := Table{Header: []string{"NAME", "N"}, Right: []int{1}, Indent: " ", Width: 12}
	long.AddTexts("größer", "1", "much too long")
	long.Add(Painted("x", Palette{On: true}.Red), Plain("22"))
	want := " NAME     N\n größer   1\n \x1b[31mx\x1b[0m       22\n"
	if got := long.Render(Palette{}); got != want {
		t.Errorf("table:\n%q\nwant\n%q", got, want)
	}
	if got := Cut("abcdef", 4); got != "abc…" {
		t.Errorf("cut to 4: %q", got)
	}
}
