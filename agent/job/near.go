// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

// Near returns the one of the names that a misspelt name most probably stands for; empty where none is near.
func Near(name string, names []string) string {
	if len(name) > maxName {
		return "" // to compare takes the time of all letters by all letters
	}
	best, found := max(2, len(name)/3), ""
	for _, candidate := range names {
		n := distance(name, candidate)
		if n < len(name) && (n < best || n == best && (found == "" || candidate < found)) {
			best, found = n, candidate
		}
	}
	return found
}

// distance counts the letters to insert, delete and replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
