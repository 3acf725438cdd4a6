// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variables returns how the flags of cmd are named in the environment; --help and --version are not. A flag that means the same for
// all commands has one name for all. Others have that of their command in it: what is right for one is invalid for another.
func variables(cmd *cobra.Command) func(*pflag.Flag) (name string, ok bool) {
	root, path := inEnvironment(cmd.Root().Name()), inEnvironment(cmd.CommandPath())
	return func(flag *pflag.Flag) (string, bool) {
		prefix := path
		switch flag.Name {
		case "help", "version":
			return "", false
		case "addr", "ca-file", "color", "data-dir", "output-dir", "token-file":
			prefix = root
		}
		return prefix + "_" + inEnvironment(flag.Name), true
	}
}

func inEnvironment(words string) string {
	name := []byte(words)
	for i, c := range name {
		switch {
		case c == ' ' || c == '-':
			name[i] = '_'
		case 'a' <= c && c <= 'z':
			name[i] = c - 'a' + 'A'
		}
	}
	return string(name)
}

// DocumentEnvironment appends to the help text of each flag its environment variable, for all commands below root.
func DocumentEnvironment(root *cobra.Command) {
	document := func(cmd *cobra.Command) func(*pflag.Flag) {
		variable := variables(cmd)
		return func(flag *pflag.Flag) {
			if name, ok := variable(flag); ok {
				flag.Usage += " [$" + name + "]"
			}
		}
	}
	root.PersistentFlags().VisitAll(document(root))
	for _, command := range root.Commands() {
		command.Flags().VisitAll(document(command))
		DocumentEnvironment(command)
	}
}

// ApplyEnvironment sets the flags that are not on the command line from their variables; an empty variable counts as
// unset. It is the PersistentPreRunE of the root. No other command may have one: it would run instead.
func ApplyEnvironment(cmd *cobra.Command, _ []string) error {
	var failed error
	variable := variables(cmd)
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
			reason := err.Error()
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				reason = whyInvalid(invalid)
			}
			failed = Usagef("environment variable %s=%s: %s (see %s --help)", name, value, reason, cmd.CommandPath())
		}
	})
	return failed
}
