// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition

import "testing"

// TestReasonsWithoutCounts holds that the label of what is absent does not change with every process.
func TestReasonsWithoutCounts(t *testing.T) {
	for reason, want := range map[string]string{
		"3 of 37 processes were skipped: 2 over the time budget of 20ms, 1 not readable": "processes were skipped: over the time budget of 20ms, not readable",
		"open /x: permission denied, and 17 more":                                        "open /x: permission denied, and more",
		"1 of 5 processes were skipped: 1 larger than 8 GiB":                             "processes were skipped: larger than 8 GiB",
		"needs Linux 6 of a kind":                                                        "needs Linux 6 of a kind",
		"needs Linux 5.8":                                                                "needs Linux 5.8",
		"memory.peak does not exist: of cgroup v2":                                       "memory.peak does not exist: of cgroup v2",
		"": "",
	} {
		if got := withoutCounts(reason); got != want {
			t.Errorf("%q is %q, want %q", reason, got, want)
		}
	}
}
