// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variable returns the environment variable of a flag; --help and --version have none.
func variable(flag *pflag.Flag) (name string, ok bool) {
	if flag.Name == "help" || flag.Name == "version" {
		return "", false
	}
	return "TACHO_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")), true
}

// DocumentEnvironment appends to the help text of each flag its environment variable, for all commands below root.
func DocumentEnvironment(root *cobra.Command) {
	document := func(flag *pflag.Flag) {
		if name, ok := variable(flag); ok {
			flag.Usage += " [$" + name + "]"
		}
	}
	root.PersistentFlags().VisitAll(document)
	for _, command := range root.Commands() {
		command.Flags().VisitAll(document)
		DocumentEnvironment(command)
	}
}

// ApplyEnvironment sets the flags that are not on the command line from their variables; an empty variable counts as
// unset. It is the PersistentPreRunE of the root. No other command may have one: it would run instead.
func ApplyEnvironment(cmd *cobra.Command, _ []string) error {
	var failed error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		name, ok := variable(flag)
		if !ok || flag.Changed || failed != nil {
			return
		}
		value := os.Getenv(name)
		if value == "" {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			failed = Usagef("environment variable %s: %w (see %s --help)", name, err, cmd.CommandPath())
		}
	})
	return failed
}
