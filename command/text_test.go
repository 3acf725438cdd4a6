// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"testing"

	"github.com/tachograph/tacho/procstats"
)

func TestFormatValue(t *testing.T) {
	for _, test := range []struct {
		unit  procstats.Unit
		value float64
		want  string
	}{
		{procstats.Bytes, 0, "0 B"},
		{procstats.Bytes, 1023, "1023 B"},
		{procstats.Bytes, 1024, "1 KiB"},
		{procstats.Bytes, 1536, "1.5 KiB"},
		{procstats.Bytes, 203 << 20, "203 MiB"},
		{procstats.Bytes, 1<<30 - 1, "1 GiB"},
		{procstats.Bytes, -3 << 20, "-3 MiB"},
		{procstats.Bytes, 1 << 62, "4 EiB"},
		{procstats.Seconds, 0, "0 s"},
		{procstats.Seconds, 0.000_25, "250 µs"},
		{procstats.Seconds, 0.0123, "12.3 ms"},
		{procstats.Seconds, 0.394, "394 ms"},
		{procstats.Seconds, 0.9999, "1.00 s"},
		{procstats.Seconds, 61.2, "61.20 s"},
		{procstats.Seconds, -0.5, "-500 ms"},
		{procstats.Seconds, 600.5, "10m0.5s"},
		{procstats.Seconds, 90_061, "25h1m1s"},
		{procstats.Cores, 1, "1.00 cores"},
		{procstats.None, 3, "3"},
		{procstats.None, 2.5, "2.5"},
	} {
		if got := formatValue(test.unit, test.value); got != test.want {
			t.Errorf("%g %v: %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

func TestFormatShare(t *testing.T) {
	for _, test := range []struct {
		part, whole float64
		want        string
	}{
		{0, 0, "–"}, {1, 0, "–"}, {0, 5, "0.0 %"}, {1, 3, "33.3 %"}, {1, 10_000, "<0.1 %"}, {-1, 4, "-25.0 %"},
	} {
		if got := formatShare(test.part, test.whole); got != test.want {
			t.Errorf("%g of %g: %q, want %q", test.part, test.whole, got, test.want)
		}
	}
}

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
		if got := commandLine(test.args); got != test.want {
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
		if got := printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	long := table{header: []string{"NAME", "N"}, right: map[int]bool{1: true}, indent: " ", width: 12}
	long.add(plain("größer", "1", "much too long")...)
	long.add(cell{text: "x", paint: palette{on: true}.red}, cell{text: "22"})
	want := " NAME     N\n größer   1\n \x1b[31mx\x1b[0m       22\n"
	if got := long.render(palette{}); got != want {
		t.Errorf("table:\n%q\nwant\n%q", got, want)
	}
	if got := cut("abcdef", 4); got != "abc…" {
		t.Errorf("cut to 4: %q", got)
	}
}
