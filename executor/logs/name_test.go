// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestFileNumber(t *testing.T) {
	tests := []struct {
		name   string
		number int64
		ok     bool
	}{
		{"web.stdout.0", 0, true},
		{"web.stdout.17", 17, true},
		{"web.stdout.9007199254740992", maxNumber, true},
		{"web.stdout.9007199254740993", 0, false},
		{"web.stdout.99999999999999999999", 0, false},
		{"web.stdout.", 0, false},
		{"web.stdout.-1", 0, false},
		{"web.stdout.+1", 0, false},
		{"web.stdout.01", 0, false},
		{"web.stdout.1 ", 0, false},
		{"web.stdout.1.gz", 0, false},
		{"web.stdout.stdout.1", 0, false},
		{"web.stderr.1", 0, false},
		{"xweb.stdout.1", 0, false},
		{"web.stdout", 0, false},
		{"", 0, false},
	}
	for _, tt := range tests {
		if number, ok := fileNumber("web.stdout", tt.name); number != tt.number || ok != tt.ok {
			t.Errorf("%q is number %d, %t; want %d, %t", tt.name, number, ok, tt.number, tt.ok)
		}
	}
}

func FuzzFileNumber(f *testing.F) {
	for _, name := range []string{
		"a.0", "a.00", "a.1", "a.-0", "a.9223372036854775807", "a.0x1", "a.1_000", "a.\x00", "a..1", ".1", "a.١",
	} {
		f.Add("a", name)
	}
	f.Fuzz(func(t *testing.T, stem, name string) {
		number, ok := fileNumber(stem, name)
		if !ok {
			return
		}
		if number < 0 || number > maxNumber {
			t.Errorf("%q has number %d, which is no number of a file", name, number)
		}
		// What is taken for a file of the series must be exactly the file that would be written.
		testkit.Equal(t, fileName(stem, number), name, "file of number %d, which %q is taken for", number, name)
	})
}

func FuzzPrefix(f *testing.F) {
	for _, prefix := range []string{"web", "", ".", "..", "../x", "a/b", "a\x00b", "\xff", "a.stdout", strings.Repeat("n", 300)} {
		f.Add(prefix)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		if checkPrefix(prefix) != nil {
			return
		}
		name := fileName(prefix+".stdout", 3)
		if strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
			t.Errorf("prefix %q makes the file name %q", prefix, name)
		}
		if number, ok := fileNumber(prefix+".stdout", name); !ok || number != 3 {
			t.Errorf("%q is not found again as number 3", name)
		}
		if _, ok := fileNumber(prefix+".stderr", name); ok {
			t.Errorf("%q is taken for a file of the other stream", name)
		}
	})
}
