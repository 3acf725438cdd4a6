// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package cli is what all commands of tacho share: exit codes, flags and their environment variables, colours, tables,
// and text that is safe to print. It knows no command.
package cli

import (
	"errors"
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

// The groups in which the root's help lists commands.
const (
	GroupMeasure = "measure"
	GroupRecords = "records"
	GroupHost    = "host"
	GroupAgent   = "agent"
)

// Described returns a command with its help, which is a section of a text: a line of "# ", the path of the command and
// its arguments; a line that says in short what it does; a description, unless it would say the same; and examples,
// the last paragraph, which is indented.
func Described(help, path string) *cobra.Command {
	arguments, short, section := describedIn(help, path)
	long, example := "\n"+section, ""
	if last := strings.LastIndex(long, "\n\n  "); last >= 0 {
		long, example = long[:last], strings.Trim(long[last:], "\n")
	}
	return &cobra.Command{
		Use: path[strings.LastIndexByte(path, ' ')+1:] + arguments, Short: short, Long: strings.TrimSpace(long),
		Example: example,
	}
}

// Topic returns what tacho help prints of a topic, a section like those of commands, all of which is the description.
func Topic(help, name string) *cobra.Command {
	_, short, section := describedIn(help, name)
	return &cobra.Command{Use: name, Short: short, Long: strings.Trim(section, "\n")}
}

func describedIn(help, path string) (arguments, short, section string) {
	_, section, _ = strings.Cut(help, "\n# "+path)
	section, _, _ = strings.Cut(section, "\n# ")
	arguments, section, _ = strings.Cut(section, "\n")
	short, section, _ = strings.Cut(section, "\n")
	return arguments, short, section
}

// AddSubcommands makes parent a command that only has subcommands: it prints its help, and it rejects an unknown
// subcommand with the names that are close. The arguments of a subcommand are those that its Use names, see Arguments,
// unless it checks them itself.
func AddSubcommands(parent *cobra.Command, subcommands ...*cobra.Command) {
	parent.AddCommand(subcommands...)
	for _, cmd := range subcommands {
		if cmd.Args == nil {
			cmd.Args = Arguments(strings.Fields(cmd.Use)[1:]...)
		}
	}
	parent.Args = knownCommand
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	// "tacho rnu" and "tacho shwo" are two typing errors away.
	parent.SuggestionsMinimumDistance = 2
}

// knownCommand implements cobra.PositionalArgs: whatever names a subcommand never gets here.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := cmd.CommandPath() + " --help lists the commands"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + OrList(near) + "?"
	}
	return Usagef("unknown command %q; %s", args[0], hint)
}

// RejectUnknownTopics makes the help of a command that does not exist an error: cobra prints the help of its parent
// instead. The returned function has the error, which a help function cannot return.
func RejectUnknownTopics(root *cobra.Command) (unknown func() error) {
	var failed error
	print := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if failed = unknownBelow(cmd, cmd.Flags().Args()); failed == nil {
			print(cmd, args)
		}
	})
	return func() error { return failed }
}

// HelpAsFlag turns the arguments "help run" into "run --help", which does the same.
func HelpAsFlag(args []string) []string {
	if len(args) > 1 && args[0] == "help" {
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// unknownBelow rejects an argument of a command that only has subcommands: it is the name of none.
func unknownBelow(cmd *cobra.Command, args []string) error {
	if !cmd.HasAvailableSubCommands() {
		return nil
	}
	return knownCommand(cmd, args)
}

// Arguments requires the named arguments, none of them empty. A name in brackets, the last ones, may be left out; one
// that ends with "..." may be repeated.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, arg := range args {
			name, known := argumentName(names, i)
			switch {
			case !known:
				return Usagef("unexpected argument %q (see %s --help)", arg, cmd.CommandPath())
			case arg == "":
				return Usagef("%s is empty (see %s --help)", name, cmd.CommandPath())
			}
		}
		if len(args) < len(names) && !strings.HasPrefix(names[len(args)], "[") {
			return Usagef("%s is missing (see %s --help)", names[len(args)], cmd.CommandPath())
		}
		return nil
	}
}

// argumentName returns the name of an argument, without brackets and dots.
func argumentName(names []string, i int) (name string, known bool) {
	last := len(names) - 1
	if i > last && last >= 0 && strings.Contains(names[last], "...") {
		i = last
	}
	if i > last {
		return "", false
	}
	return strings.TrimSuffix(strings.Trim(names[i], "[]"), "..."), true
}

const (
	codeError = 1
	codeUsage = 2
	// codeLauncher is for any error of tacho itself in a command that runs another command, so that it is not taken
	// for that command's code.
	codeLauncher = 125
)

// ErrReported makes Report return the code of an error without printing it.
var ErrReported = errors.New("already reported")

// Usagef returns an error of wrong usage, formatted like fmt.Errorf.
func Usagef(format string, args ...any) error {
	return &exitError{codeUsage, fmt.Errorf(format, args...)}
}

// exitError has an exit code of its own. If err is nil, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitWith returns an error that makes Report return code and print err, unless err is nil.
func ExitWith(code int, err error) error { return &exitError{code, err} }

// launches is the annotation of commands that run another command.
const launches = "launches"

// Launcher marks a command as one that runs another command: the code of its own errors is 125.
func Launcher(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{launches: ""}
	return cmd
}

// Report prints the error of the executed command in one line and returns the exit code.
func Report(stderr io.Writer, executed *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	own, ok := errors.AsType[*exitError](err)
	if !ok {
		own = &exitError{codeError, err}
	}
	if own.err == nil {
		return own.code
	}
	code := own.code
	if _, launcher := executed.Annotations[launches]; launcher && code <= codeUsage {
		code = codeLauncher
	}
	if !errors.Is(err, ErrReported) {
		PrintError(stderr, err)
	}
	return code
}

// PrintError prints err in one line; nothing for nil. A failed write is ignored: there is no other place to report it.
func PrintError(stderr io.Writer, err error) {
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "tacho: %s\n", OneLine(err.Error()))
	}
}
