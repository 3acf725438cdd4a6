// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is how wide help is at most: what every terminal shows.
const helpWidth = 80

// WrapHelp breaks the help of all commands below root at words. Lines that begin with a blank stay as they are: examples.
func WrapHelp(root *cobra.Command) {
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", wrapped))
	wrapLong(root)
}

func wrapLong(cmd *cobra.Command) {
	cmd.Long = wrapParagraphs(cmd.Long, helpWidth)
	for _, below := range cmd.Commands() {
		wrapLong(below)
	}
}

// wrapParagraphs joins the lines of each paragraph, and breaks them at width columns.
func wrapParagraphs(text string, width int) string {
	var lines []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			lines = append(lines, Wrap(paragraph, width)...)
		}
		paragraph = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, " ") {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph = strings.TrimLeft(paragraph+" "+line, " ")
	}
	end()
	return strings.Join(lines, "\n")
}
