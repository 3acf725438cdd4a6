// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how wide help is at most: what every terminal shows.
const helpWidth = 80

// Annotations of flags: the group in the help, and the usage text with the name of the argument in backquotes.
const inGroup, quotedUsage = "group", "usage"

// Group puts flags of cmd into a group of the help, in the order in which they were added: those with the names, or all
// that are in no group yet.
func Group(cmd *cobra.Command, title string, names ...string) {
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[inGroup] == nil && (len(names) == 0 || slices.Contains(names, flag.Name)) {
			_ = cmd.Flags().SetAnnotation(flag.Name, inGroup, []string{title}) // fails only for a flag that does not exist
		}
	})
}

// LayOutHelp makes root and all commands below it print the help of this package. Shells complete flags with texts
// without backquotes.
func LayOutHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		width := helpWidth
		if columns := PaletteFor(cmd, cmd.OutOrStdout()).Columns; columns > 0 {
			width = min(width, columns)
		}
		_, _ = io.WriteString(cmd.OutOrStdout(), helpText(cmd, width))
	})
	unquote := func(flag *pflag.Flag) {
		if flag.Annotations[quotedUsage] != nil {
			return // it is also one of a command below
		}
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[quotedUsage] = []string{flag.Usage}
		_, flag.Usage = pflag.UnquoteUsage(flag)
	}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(unquote)
		cmd.PersistentFlags().VisitAll(unquote)
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(root)
}

// Section is a part of a command's help: a title and what is below it.
type Section struct {
	Title string
	// Rows are flags or commands, each with what it does.
	Rows [][2]string
}

// FlagSections returns the flags of a command by group. Those of all commands are in the help of the root.
func FlagSections(cmd *cobra.Command) (sections []Section) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		title := "Flags"
		if flag.Hidden || flag.Name == "help" || flag.Name == "version" {
			return
		}
		if group := flag.Annotations[inGroup]; group != nil {
			title = group[0]
		}
		at := slices.IndexFunc(sections, func(s Section) bool { return s.Title == title })
		if at < 0 {
			at, sections = len(sections), append(sections, Section{Title: title})
		}
		sections[at].Rows = append(sections[at].Rows, flagRow(flag))
	})
	return sections
}

// flagRow returns a flag with its argument, and its usage text with the default.
func flagRow(flag *pflag.Flag) [2]string {
	quoted := *flag
	if usage := flag.Annotations[quotedUsage]; usage != nil {
		quoted.Usage = usage[0]
	}
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(&quoted)
	const apart = "   " // at least so many blanks are before the usage text
	name, usage, _ := strings.Cut(strings.TrimSpace(one.FlagUsages()), apart)
	if flag.Shorthand == "" {
		name = "    " + name // below those with a letter
	}
	return [2]string{name, strings.TrimSpace(usage)}
}

// CommandSections returns the commands below one by group, and the topics that have a help.
func CommandSections(cmd *cobra.Command) (sections []Section) {
	rows := func(title string, wanted func(*cobra.Command) bool) {
		s := Section{Title: title}
		for _, below := range cmd.Commands() {
			if wanted(below) {
				s.Rows = append(s.Rows, [2]string{below.Name(), below.Short})
			}
		}
		if s.Rows != nil {
			sections = append(sections, s)
		}
	}
	available := func(id string) func(*cobra.Command) bool {
		return func(c *cobra.Command) bool { return c.GroupID == id && (c.IsAvailableCommand() || c.Name() == "help") }
	}
	for _, group := range cmd.Groups() {
		rows(group.Title, available(group.ID))
	}
	rows("Commands", available(""))
	rows("Topics, for tacho help TOPIC", (*cobra.Command).IsAdditionalHelpTopicCommand)
	return sections
}

// Describe returns what the help of a command says first, and the rest of its description.
func Describe(cmd *cobra.Command) (first, rest string) {
	if cmd.Long == "" {
		return cmd.Short + ".", ""
	}
	first, rest, _ = strings.Cut(cmd.Long, "\n\n")
	return first, rest
}

// helpText is the help of a command: what it does, how it is called, and examples come first.
func helpText(cmd *cobra.Command, width int) string {
	var b strings.Builder
	if cmd.IsAdditionalHelpTopicCommand() {
		return cmd.Short + "\n\n" + fold(cmd.Long, width) + "\n"
	}
	first, rest := Describe(cmd)
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", fold(first, width), fold(usage, width-2))
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso: %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", fold(cmd.Example, width))
	}
	if rest != "" {
		b.WriteString("\n" + fold(rest, width) + "\n")
	}
	for _, section := range CommandSections(cmd) {
		b.WriteString(section.text(width))
	}
	for _, section := range FlagSections(cmd) {
		b.WriteString(section.text(width))
	}
	return b.String() + "\n" + fold("Flags can also be set in the environment: tacho help environment.", width) + "\n"
}

// fold fits a text of lines of helpWidth into a narrow terminal: paragraphs anew, and indented lines one by one.
func fold(text string, width int) string {
	if width == helpWidth {
		return text
	}
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if !strings.HasPrefix(paragraph, " ") && !strings.Contains(paragraph, "\n ") {
			paragraph = strings.ReplaceAll(paragraph, "\n", " ")
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			bare := strings.TrimLeft(line, " ")
			indent := line[:len(line)-len(bare)]
			b.WriteString(Hang(Palette{Columns: width}, indent, indent, bare, nil))
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}

// text returns the section in lines of so many columns.
func (s Section) text(columns int) string {
	const leastGap, widest = 2, 28
	width := 0
	for _, row := range s.Rows {
		if n := len(row[0]); n <= widest {
			width = max(width, n)
		}
	}
	var text strings.Builder
	text.WriteString("\n" + s.Title + ":\n")
	for _, row := range s.Rows {
		first := fmt.Sprintf("  %-*s", width+leastGap, row[0])
		rest := strings.Repeat(" ", 2+width+leastGap)
		if len(row[0]) > width {
			text.WriteString("  " + row[0] + "\n")
			first = rest
		}
		text.WriteString(Hang(Palette{Columns: columns}, first, rest, row[1], nil))
	}
	return text.String()
}
