// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"slices"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "0-3": "0-3", "3,1,2": "1-3", "0-1,7": "0-1,7", "5,5,4-6": "4-6", "0, 2": "0,2",
	} {
		cpus, err := ParseCPUs(text)
		if err != nil || FormatCPUs(cpus) != want {
			t.Errorf("%q: %v (%v), want %s", text, cpus, err, want)
		}
	}
	for _, text := range []string{"", "a", "1-", "-1", "3-1", "0-3:2", "1,,2", "0-99999999", "4294967296"} {
		if cpus, err := ParseCPUs(text); err == nil {
			t.Errorf("%q: %v, want an error", text, cpus)
		}
	}
}

func FuzzParseCPUs(f *testing.F) {
	for _, seed := range []string{"0-3,7", "", "1,,2", "0-65535", "9-1", "0-0,0-0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseCPUs(text)
		if err != nil {
			return
		}
		again, err := ParseCPUs(FormatCPUs(cpus))
		if err != nil || !slices.Equal(again, cpus) || !slices.IsSorted(cpus) || len(cpus) == 0 {
			t.Errorf("%q is %v, and read again %v (%v)", text, cpus, again, err)
		}
	})
}
