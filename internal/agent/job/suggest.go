// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import "github.com/tachograph/tacho/procstats"

// Near returns the name that a misspelled one most probably means; empty if none is near.
func Near(name string, names []string) string {
	if len(name) > maxName {
		return "" // to compare takes the time of all letters by all letters
	}
	best, found := max(2, len(name)/3), ""
	for _, candidate := range names {
		n := procstats.EditDistance(name, candidate)
		if n < len(name) && (n < best || n == best && (found == "" || candidate < found)) {
			best, found = n, candidate
		}
	}
	return found
}
