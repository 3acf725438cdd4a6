// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"slices"

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

// Arguments requires the named arguments, none of them empty.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch empty := slices.Index(args, ""); {
		case empty >= 0 && empty < len(names):
			return Usagef("%s is empty (see %s --help)", names[empty], cmd.CommandPath())
		case len(args) == len(names):
			return nil
		case len(args) > len(names):
			return Usagef("unexpected argument %q (see %s --help)", args[len(names)], cmd.CommandPath())
		}
		return Usagef("%s is missing (see %s --help)", names[len(args)], cmd.CommandPath())
	}
}
