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
)

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
