// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestLinks holds that every link to a file or a heading of this repository leads there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pagesOf(t) {
		text := testkit.Value(os.ReadFile(filepath.Join("../..", page)))(t)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			path := filepath.Join("../..", page)
			if target != "" {
				path = filepath.Join("../..", filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s: no such file", page, m[1])
			} else if anchor != "" && !slices.Contains(anchorsOf(t, path), anchor) {
				t.Errorf("%s: %s: no such heading", page, m[1])
			}
		}
	}
}

// anchorsOf returns what hosts of Markdown make of the headings of a page.
func anchorsOf(t *testing.T, path string) (all []string) {
	t.Helper()
	text := testkit.Value(os.ReadFile(path))(t)
	punctuation := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// pagesOf returns every page, relative to the repository.
func pagesOf(t *testing.T) []string {
	t.Helper()
	pages := testkit.Value(filepath.Glob("../../docs/*.md"))(t)
	for i, page := range pages {
		pages[i] = strings.TrimPrefix(page, "../../")
	}
	return append(pages, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
}

// runs reports whether TestPages runs a block, or writes it to a file that a command of its page reads.
func (b block) runs() bool { return b.kind == "console" || b.title != "" }

// TestQueries holds that the metrics of pages, alert rules and the dashboard exist, and that the queries of the dashboard use
// existing labels, and counters with rate or increase.
func TestQueries(t *testing.T) {
	metrics := read(t, "docs/metrics.md") // which a test of the agent holds against the program
	name := regexp.MustCompile(`tacho_(task|agent)_[a-z_]+`)
	for _, path := range []string{
		"packaging/prometheus/alerts.yml", "packaging/grafana/tachograph.json", "docs/howto.md", "docs/operating.md", "README.md",
	} {
		for _, found := range name.FindAllString(read(t, path), -1) {
			if !strings.Contains(metrics, "| "+found+" |") {
				t.Errorf("%s names %s, which is not a metric", path, found)
			}
		}
	}
	labels := []string{"alloc_id", "job", "namespace", "task", "task_group", "host", "instance"}
	matcher := regexp.MustCompile(`([a-z_]+)=~?\\"|\{\{([a-z_]+)\}\}`)
	query := regexp.MustCompile(`"(expr|legendFormat)": "(.*)"`)
	for _, m := range query.FindAllStringSubmatch(read(t, "packaging/grafana/tachograph.json"), -1) {
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, label[1]+label[2]) {
				t.Errorf("no label %s in %s", label[1]+label[2], m[2])
			}
		}
		for _, metric := range name.FindAllString(m[2], -1) {
			counts := strings.Contains(metrics, fmt.Sprintf("| %s | counter |", metric))
			rates := strings.Contains(m[2], "rate("+metric) || strings.Contains(m[2], "increase("+metric)
			if counts != rates && m[1] == "expr" {
				t.Errorf("%s: a counter takes rate or increase, and a gauge neither", m[2])
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := testkit.Value(os.ReadFile(filepath.Join("../..", path)))(t)
	return string(text)
}
