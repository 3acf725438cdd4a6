// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Variable is the environment variable of a flag; ok is false for the two that make no sense in one.
func Variable(flag *pflag.Flag) (name string, ok bool) {
	if flag.Name == "help" || flag.Name == "version" {
		return "", false
	}
	return "TACHO_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")), true
}

// DocumentEnvironment names each flag's variable in its help text, in all commands below root.
func DocumentEnvironment(root *cobra.Command) {
	document := func(flag *pflag.Flag) {
		if name, ok := Variable(flag); ok {
			flag.Usage += " [$" + name + "]"
		}
	}
	root.PersistentFlags().VisitAll(document)
	for _, command := range root.Commands() {
		command.Flags().VisitAll(document)
		DocumentEnvironment(command)
	}
}

// ApplyEnvironment sets the flags that were not given and whose variable is there and not empty. It is the root's
// PersistentPreRunE: commands below have none of their own, which would replace it.
func ApplyEnvironment(cmd *cobra.Command, _ []string) error {
	var fault error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		name, ok := Variable(flag)
		if !ok || flag.Changed || fault != nil {
			return
		}
		value := os.Getenv(name)
		if value == "" {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			fault = Usagef("the environment variable %s: %w (see %s --help)", name, err, cmd.CommandPath())
		}
	})
	return fault
}
