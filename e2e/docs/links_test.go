// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinks holds that every link to a file or a heading of this repository leads there, and that the index has every page.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	var indexed []string
	for _, page := range pagesOf(t) {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			path := filepath.Join("../..", page)
			if target != "" {
				path = filepath.Join("../..", filepath.Dir(page), target)
			}
			if page == "docs/README.md" {
				indexed = append(indexed, filepath.Base(path))
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s: no such file", page, m[1])
			} else if anchor != "" && !slices.Contains(anchorsOf(t, path), anchor) {
				t.Errorf("%s: %s: no such heading", page, m[1])
			}
		}
	}
	for _, page := range pagesOf(t) {
		if name := filepath.Base(page); strings.HasPrefix(page, "docs/") && name != "README.md" && !slices.Contains(indexed, name) {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

// anchorsOf returns what hosts of Markdown make of the headings of a page.
func anchorsOf(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	punctuation := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
