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
