// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"slices"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
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
		testkit.Equal(t, CommandLine(test.args), test.want, "%q", test.args)
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
		testkit.Equal(t, Printable(text), want, "%q", text)
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
	names := Table{Width: 20, Leave: []int{1, Shorten, 2}, Least: map[int]int{0: 7, 3: 4}, Right: []int{2}, Header: []string{"NAME", "WHEN", "N", "COMMAND"}}
	names.AddTexts("beginning-end", "today", "1", "make all")
	for width, want := range map[int]string{
		40: "NAME           WHEN   N  COMMAND\nbeginning-end  today  1  make all\n",
		30: "NAME           WHEN   N  COMM…\nbeginning-end  today  1  make…\n",
		25: "NAME           N  COMMAND\nbeginning-end  1  make a…\n",
		20: "NAME         N  COM…\nbegin…g-end  1  mak…\n",
		16: "NAME     N  COM…\nbeg…end  1  mak…\n",
		13: "NAME     COM…\nbeg…end  mak…\n",
	} {
		names.Width = width
		if got := names.Render(Palette{}); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
	testkit.Equal(t, Cut("abcdef", 4), "abc…", "cut to 4")
}

// TestWrap holds that lines are broken at blanks, that blanks within a line stay, and that words longer than a line
// are broken.
func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two", 0, []string{"one two"}},
		{"one two", 7, []string{"one two"}},
		{"one two", 6, []string{"one", "two"}},
		{"sh -c 'a  b' and more", 13, []string{"sh -c 'a  b'", "and more"}},
		{"  indented text", 11, []string{"  indented", "text"}},
		{"abcdefgh ij", 4, []string{"abcd", "efgh", "ij"}},
		{"/sys/fs/cgroup/a-name", 16, []string{"/sys/fs/cgroup/", "a-name"}},
		{"größer größer", 6, []string{"größer", "größer"}},
	} {
		if got := Wrap(test.text, test.width); !slices.Equal(got, test.want) {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.width, got, test.want)
		}
	}
	p := Palette{Columns: 12}
	for first, want := range map[string]string{
		"a: ":               "a: one two\n  three\n",
		"0123456789: ":      "0123456789:\n  one two\n  three\n",
		"\x1b[1ma\x1b[0m: ": "\x1b[1ma\x1b[0m: one two\n  three\n",
	} {
		testkit.Equal(t, Hang(p, first, "  ", "one two three", nil), want, "%q", first)
	}
}

// TestTableWraps holds that the last column is wrapped if the table has no width of its own, and that its texts are
// below their rows if it would be too narrow.
func TestTableWraps(t *testing.T) {
	table := Table{Indent: " ", Right: []int{1}}
	table.AddTexts("memory", "12", "no limit is set for this cgroup, nor for its ancestors")
	table.AddTexts("a", "1", "short")
	for columns, want := range map[int]string{
		0:  " memory  12  no limit is set for this cgroup, nor for its ancestors\n a        1  short\n",
		50: " memory  12  no limit is set for this cgroup, nor\n             for its ancestors\n a        1  short\n",
		30: " memory  12\n     no limit is set for this\n     cgroup, nor for its\n     ancestors\n a        1  short\n",
	} {
		if got := table.Render(Palette{Columns: columns}); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, got, want)
		}
	}
	names := Table{Leave: []int{Shorten}, Least: map[int]int{0: 7}}
	names.AddTexts("beginning-end", "1", "a remark that is below takes no room")
	want := "beginning-end  1\n    a remark that is\n    below takes no room\n"
	testkit.Equal(t, names.Render(Palette{Columns: 24}), want, "the name is whole")
}
