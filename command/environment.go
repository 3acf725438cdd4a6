// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variable is the environment variable of a flag; ok is false for the two that make no sense in one.
func variable(flag *pflag.Flag) (name string, ok bool) {
	if flag.Name == "help" || flag.Name == "version" {
		return "", false
	}
	return "TACHO_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")), true
}

// documentEnvironment names each flag's variable in its help text, in all commands below root.
func documentEnvironment(root *cobra.Command) {
	document := func(flag *pflag.Flag) {
		if name, ok := variable(flag); ok {
			flag.Usage += " [$" + name + "]"
		}
	}
	root.PersistentFlags().VisitAll(document)
	for _, command := range root.Commands() {
		command.Flags().VisitAll(document)
		documentEnvironment(command)
	}
}

// applyEnvironment sets the flags that were not given and whose variable is there and not empty. It is the root's
// PersistentPreRunE: commands below have none of their own, which would replace it.
func applyEnvironment(cmd *cobra.Command, _ []string) error {
	var fault error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		name, ok := variable(flag)
		if !ok || flag.Changed || fault != nil {
			return
		}
		value := os.Getenv(name)
		if value == "" {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			fault = usagef("the environment variable %s: %w (see %s --help)", name, err, cmd.CommandPath())
		}
	})
	return fault
}

// choice is a flag that takes one word out of a few.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("it takes %s", orList(c.allowed))
	}
	c.value = value
	return nil
}

// Type is left out of the help: the usage text has the words.
func (c *choice) Type() string { return "WORD" }

// completeFlags lets the shell complete what flags take, in all commands: words, measurements, folders.
func completeFlags(cmd *cobra.Command) {
	// Registering fails for a flag that does not exist or was registered before; neither can be here.
	complete := func(flag *pflag.Flag) {
		if c, ok := flag.Value.(*choice); ok {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
		}
		switch flag.Name {
		case "measurements":
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, completeSelection)
		case "output-dir":
			_ = cmd.MarkFlagDirname(flag.Name)
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(complete)
	cmd.PersistentFlags().VisitAll(complete)
	for _, command := range cmd.Commands() {
		completeFlags(command)
	}
}

// formatFlag adds --format with the given words, the first being the default.
func formatFlag(cmd *cobra.Command, allowed ...string) *choice {
	c := &choice{value: allowed[0], allowed: allowed}
	cmd.Flags().Var(c, "format", "print as "+orList(allowed))
	return c
}
