// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
)

// manPage returns the help of a command as a page of the manual, in the macros of man(7).
func manPage(cmd *cobra.Command, version string, when time.Time) string {
	var b strings.Builder
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	day := when.UTC().Format(time.DateOnly)
	fmt.Fprintf(&b, ".TH %q 1 %q %q Tachograph\n", strings.ToUpper(name), day, "tacho "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	if !cmd.IsAdditionalHelpTopicCommand() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roff(cmd.UseLine()))
	}
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + literal(cmd.Example))
	}
	first, rest := cli.Describe(cmd)
	b.WriteString(".SH DESCRIPTION\n")
	for paragraph := range strings.SplitSeq(first+"\n\n"+rest, "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			b.WriteString(literal(paragraph))
		} else {
			b.WriteString(".PP\n" + roff(paragraph) + "\n")
		}
	}
	for _, section := range append(cli.CommandSections(cmd), cli.FlagSections(cmd)...) {
		fmt.Fprintf(&b, ".SH %q\n", strings.ToUpper(roff(section.Title)))
		for _, row := range section.Rows {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(strings.TrimSpace(row[0])), roff(row[1]))
		}
	}
	return b.String()
}

// literal returns lines as they are.
func literal(text string) string { return ".PP\n.nf\n" + roff(text) + "\n.fi\n" }

// roff escapes what would be a request or an escape sequence.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	text = strings.ReplaceAll(text, "\n.", "\n\\&.")
	text = strings.ReplaceAll(text, "\n'", "\n\\&'")
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
