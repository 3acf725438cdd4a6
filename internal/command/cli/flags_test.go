// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"slices"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "10s": 10 * time.Second, "1.5h": 90 * time.Minute, "7d": 7 * day, "1d12h": 36 * time.Hour, "0d": 0,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"10": "no unit; did you mean 10s?", "0.5": "no unit; did you mean 0.5s?", "": errDuration.Error(), "d": errDuration.Error(),
		"10sec": errDuration.Error(), "1.5d": errDuration.Error(), "99999999d": errDuration.Error(), "1d2": errDuration.Error(),
		"-5s": "must not be negative", "1d-5s": "must not be negative",
	} {
		if got, err := ParseDuration(text); err == nil || err.Error() != want {
			t.Errorf("%q: %s (%v), want %q", text, got, err, want)
		}
	}
}

func TestNear(t *testing.T) {
	names := []string{"--timeout", "--memory", "--memory-high", "--format", "--cpu", "--cpuset"}
	for word, want := range map[string][]string{
		"--tmeout": {"--timeout"}, "--fromat": {"--format"}, "--mem": {"--memory", "--memory-high"}, "--xyzzy": nil, "--cp": {"--cpu"},
	} {
		if got := Near(word, names); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

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
