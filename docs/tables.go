// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package docs has the tables of configuration.md, so that tests can hold them against the program.
package docs

import (
	_ "embed" // of the page
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed configuration.md
var configuration string

// Table is a table of keys.
type Table []Row

// Row is one key.
type Row struct {
	// Key has a dot before what stands in a block.
	Key string
	// Default is written in HCL; empty where the page has words for it.
	Default string
}

// Configuration returns the table under a heading; empty where there is none.
func Configuration(heading string) Table {
	var table Table
	var under string
	for line := range strings.Lines(configuration) {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			under = strings.TrimSpace(strings.ReplaceAll(strings.TrimLeft(title, "#"), "`", ""))
		}
		cells := strings.Split(line, "|")
		if under != heading || len(cells) < 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		row := Row{Key: strings.Trim(cells[1], " `")}
		if literal, ok := strings.CutPrefix(cells[2], " `"); ok {
			row.Default, _, _ = strings.Cut(literal, "`")
		}
		table = append(table, row)
	}
	return table
}

// Keys returns the keys in order of the alphabet.
func (t Table) Keys() []string {
	var keys []string
	for _, row := range t {
		keys = append(keys, row.Key)
	}
	slices.Sort(keys)
	return keys
}

// HCL says every default: what that means must be what nothing means.
func (t Table) HCL() string {
	var top strings.Builder
	blocks := map[string]string{}
	for _, row := range t {
		block, key, nested := strings.Cut(row.Key, ".")
		switch {
		case row.Default == "":
		case nested:
			blocks[block] += fmt.Sprintf("  %s = %s\n", key, row.Default)
		default:
			fmt.Fprintf(&top, "%s = %s\n", row.Key, row.Default)
		}
	}
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		fmt.Fprintf(&top, "%s {\n%s}\n", block, blocks[block])
	}
	return top.String()
}
