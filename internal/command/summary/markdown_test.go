// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
)

// TestMarkdown holds that no text of others ends a cell, a line or the code of the title.
func TestMarkdown(t *testing.T) {
	const hostile = "a|b ``c`` <b>\n| x | **y** [z](http://example.org) $(id)"
	r := &record.Record{
		State: record.Exited, Command: []string{hostile}, WallSeconds: new(2.0),
		Diagnosis: record.Diagnosis{Verdict: record.StartFailed, Reason: hostile},
	}
	text := Markdown(r, []budget.Result{
		{Budget: "wall_seconds > 1 s", Failed: true, Reason: hostile},
		{Budget: "memory_peak_bytes > 1 MiB", Reason: "it is 1 KiB"},
	})
	lines := strings.Split(text, "\n")
	if !strings.HasPrefix(lines[0], "### ```") || !strings.HasSuffix(lines[0], "```") {
		t.Errorf("title %q", lines[0])
	}
	separator := regexp.MustCompile(`(?:^|[^\\])\|`)
	columns, tables := 0, 0
	for i, line := range lines[1:] {
		switch {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0:
			columns = len(separator.FindAllString(line, -1))
			tables++
		case len(separator.FindAllString(line, -1)) != columns:
			t.Errorf("line %d has other columns than its table: %q", i+2, line)
		}
		if strings.Contains(line, "<b>") || strings.Contains(line, "**y") {
			t.Errorf("line %d is interpreted: %q", i+2, line)
		}
	}
	if tables != 2 || !strings.Contains(text, "| **failed** |") || !strings.Contains(text, "| held |") {
		t.Errorf("%d tables:\n%s", tables, text)
	}
}
