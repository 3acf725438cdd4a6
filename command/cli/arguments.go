// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// Arguments checks the number of arguments; names say what they are, in the help's words.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch empty := slices.Index(args, ""); {
		case empty >= 0 && empty < len(names):
			return Usagef("%s is empty (see %s --help)", names[empty], cmd.CommandPath())
		case len(args) == len(names):
			return nil
		case len(args) > len(names):
			return Usagef("one argument too many: %q (see %s --help)", args[len(names)], cmd.CommandPath())
		}
		return Usagef("%s is missing (see %s --help)", names[len(args)], cmd.CommandPath())
	}
}

// KnownCommand is the answer to a word that names no command.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := cmd.CommandPath() + " --help lists the commands"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + OrList(near) + "?"
	}
	return Usagef("there is no command %q: %s", args[0], hint)
}
