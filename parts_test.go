// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTableOfParts compares the table of docs/architecture.md with what the packages may import.
func TestTableOfParts(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string][]string)
	for _, p := range parts {
		known[p.dir] = p.uses
	}
	compared := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			continue
		}
		uses := slices.DeleteFunc(codes(cells[2]), func(name string) bool { _, isDir := known[name]; return !isDir })
		for _, dir := range codes(cells[0]) {
			want, isDir := known[dir]
			if !isDir || compared[dir] {
				continue
			}
			compared[dir] = true
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(uses))); diff != "" {
				t.Errorf("%s: imports_test.go and docs/architecture.md (-, +):\n%s", dir, diff)
			}
		}
	}
	for dir := range maps.Keys(known) {
		if !compared[dir] && !strings.HasPrefix(dir, "agent/") && dir != "" { // the agent's have a table without this column
			t.Errorf("docs/architecture.md has no row of %s", dir)
		}
	}
}

// codes lists the names in backquotes, `a/{b,c}` as two.
func codes(text string) (names []string) {
	for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		before, list, braces := strings.Cut(code[1], "{")
		if !braces {
			names = append(names, code[1])
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(list, "}"), ",") {
			names = append(names, before+name)
		}
	}
	return names
}
