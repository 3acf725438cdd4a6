// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"fmt"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
)

// Markdown returns how a run ended, what it used and what became of its budgets, as a section with a table.
func Markdown(r *record.Record, budgets []budget.Result) string {
	var b strings.Builder
	title := codeSpan(cli.CommandLine(r.Command))
	fmt.Fprintf(&b, "### %s\n\n%s\n\n| | |\n|---|---|\n", title, cli.Markdown(r.End().Summary))
	for _, line := range Lines(r) {
		fmt.Fprintf(&b, "| %s | %s |\n", line[0], cli.Markdown(line[1]))
	}
	b.WriteString(Budgets(budgets))
	return b.String()
}

// Budgets returns what became of budgets as a table; empty for none.
func Budgets(budgets []budget.Result) string {
	var b strings.Builder
	if len(budgets) > 0 {
		b.WriteString("\n| budget: fails if | | |\n|---|---|---|\n")
	}
	for _, result := range budgets {
		word := "held"
		if result.Failed {
			word = "**failed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", cli.Markdown(result.Budget), word, cli.Markdown(result.Reason))
	}
	b.WriteByte('\n')
	return b.String()
}

// codeSpan returns a text as code, in more backticks than it has in a row.
func codeSpan(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	blank := ""
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		blank = " "
	}
	return fence + blank + text + blank + fence
}
