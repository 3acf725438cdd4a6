// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
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

// AddSubcommands makes parent a command that only has subcommands: it prints its help, and it rejects an unknown
// subcommand with the names that are close.
func AddSubcommands(parent *cobra.Command, subcommands ...*cobra.Command) {
	parent.AddCommand(subcommands...)
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

// RejectUnknownTopics makes the help of a command that does not exist an error: cobra prints the help of its parent instead. The
// returned function has the error of "tacho nosuch --help", whose help function cannot return one.
func RejectUnknownTopics(root *cobra.Command) (unknown func() error) {
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil && help != root {
		help.Run, help.RunE = nil, func(_ *cobra.Command, args []string) error { return helpOf(root, args) }
	}
	var failed error
	print := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if failed = unknownBelow(cmd, cmd.Flags().Args()); failed == nil {
			print(cmd, args)
		}
	})
	return func() error { return failed }
}

// helpOf prints the help of the command that words name.
func helpOf(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	if err != nil {
		return Usagef("%w", err)
	}
	if err := unknownBelow(cmd, rest); err != nil {
		return err
	}
	if len(rest) > 0 {
		return Usagef("unexpected argument %q; %s has no subcommands", rest[0], cmd.CommandPath())
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	return cmd.Help()
}

// unknownBelow rejects an argument of a command that only has subcommands: it is the name of none.
func unknownBelow(cmd *cobra.Command, args []string) error {
	if !cmd.HasAvailableSubCommands() {
		return nil
	}
	return knownCommand(cmd, args)
}

// Arguments requires the named arguments, none of them empty. A name in brackets, the last ones, may be left out; one that ends with
// "..." may be repeated.
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
