// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pagesOf returns every page, relative to the repository.
func pagesOf(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, page := range pages {
		pages[i] = strings.TrimPrefix(page, "../../")
	}
	return append(pages, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
}

// runs reports whether TestPages runs a block, or writes it to a file that a command of its page reads.
func (b block) runs() bool { return b.kind == "console" || b.title != "" }

// listed is a block in the table of docs/README.md: its page and how it begins.
type listed struct{ page, begins string }

// TestBlocks holds that every block of every page is run or is listed with the reason why it is not.
func TestBlocks(t *testing.T) {
	list := make(map[listed]string)
	row := regexp.MustCompile("(?m)^\\| ([A-Za-z./]+\\.md) \\| `(.+)` \\| (.+) \\|$")
	text, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		list[listed{m[1], m[2]}] = m[3]
	}
	for _, page := range pagesOf(t) {
		for _, b := range blocks(t, filepath.Join("../..", page)) {
			at := listed{page, b.beginning()}
			if reason := list[at]; !b.runs() && reason == "" {
				t.Errorf("neither run nor listed in docs/README.md: | %s | `%s` |", at.page, at.begins)
			}
			delete(list, at)
		}
	}
	for at := range list {
		t.Errorf("docs/README.md lists a block that is not there, or is run: %s, %q", at.page, at.begins)
	}
}

// beginning is what a block is known by: the first words of its first line.
func (b block) beginning() string {
	words := strings.Fields(strings.ReplaceAll(b.lines[0], "|", ""))
	return strings.Join(words[:min(4, len(words))], " ")
}

// tachoCommand is a command in a block that is not run, up to a comment, a pipe or a redirection.
var tachoCommand = regexp.MustCompile(`^(?:- run: )?(?:sudo )?(?:bin/)?tacho ([a-z][^#|>]*)`)

// commandsOf returns the arguments of each tacho command in a block.
func commandsOf(b block) (all [][]string) {
	for _, line := range b.lines {
		if m := tachoCommand.FindStringSubmatch(line); m != nil {
			all = append(all, words(m[1]))
		}
	}
	return all
}

// words splits a command as a shell does, as far as pages need it.
func words(text string) (all []string) {
	for _, m := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(text, -1) {
		all = append(all, strings.Trim(m, `'"`))
	}
	return all
}

// TestEnds holds that the page says of every outcome what to do.
func TestEnds(t *testing.T) {
	text, err := os.ReadFile("../../docs/info.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Enum []string `json:"enum"`
			} `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	ends := slices.DeleteFunc(schema.Defs["Diagnosis"].Properties["verdict"].Enum, func(verdict string) bool { return verdict == "" })
	if len(ends) < 7 {
		t.Fatalf("verdicts of the schema: %q", ends)
	}
	page, err := os.ReadFile("../../docs/howto.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## … act on an end\n")
	section, _, _ = strings.Cut(section, "\n## ")
	told := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_-]+)` \\| .+ \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		told[m[1]] = true
	}
	want := map[string]bool{"oom-killed": true}
	for _, end := range ends {
		want[end] = true
	}
	if !maps.Equal(told, want) {
		t.Errorf("docs/howto.md says what to do after %v, and the ends are %v", slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(want)))
	}
}

// TestDashboard holds that the queries of the dashboard use metrics and labels that there are, and that it draws each of them.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../packaging/grafana/tachograph.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Targets []struct {
				Expr         string `json:"expr"`
				LegendFormat string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	labels := []string{"alloc_id", "job", "namespace", "task", "task_group", "host", "instance"}
	matcher, legend := regexp.MustCompile(`([a-z_]+)=~?"`), regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	name := regexp.MustCompile(`tacho_(task|agent)_[a-z_]+`)
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		if ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %q: no query, or the number of another panel", p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			for _, m := range append(matcher.FindAllStringSubmatch(target.Expr, -1), legend.FindAllStringSubmatch(target.LegendFormat, -1)...) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("panel %q: no label %s", p.Title, m[1])
				}
			}
			found := name.FindAllString(target.Expr, -1)
			if len(found) == 0 {
				t.Errorf("panel %q: no metric in %s", p.Title, target.Expr)
			}
			for _, metric := range found {
				counts := strings.Contains(string(metrics), fmt.Sprintf("| %s | counter |", metric))
				rates := strings.HasPrefix(target.Expr, "rate(") || strings.HasPrefix(target.Expr, "increase(")
				if counts != rates {
					t.Errorf("panel %q: %s: a counter takes rate or increase, and a gauge neither", p.Title, target.Expr)
				}
			}
		}
	}
	if len(ids) < 8 {
		t.Errorf("%d panels", len(ids))
	}
}
