// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import "testing"

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "400M": 400 << 20, "1.5G": 3 << 29, "64KiB": 64 << 10, "64kb": 64 << 10, "1 MiB": 1 << 20, "7b": 7,
		"0.5k": 512, "2T": 2 << 40, "1e": 1 << 60, "64Ki": 64 << 10,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "-1", "+1", "1.5", "400MM", "12Q", "8E", "1e3", "0x10", "1_000", "NaN", "inf", "1e400", " 1"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"400M", "1.5G", "", "K", "9223372036854775807", "99999999999999E", "1é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseSize(text); err == nil && got < 0 || err != nil && got != 0 {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	})
}
