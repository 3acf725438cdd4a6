// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Choice is a flag that takes one word out of a few.
type Choice struct {
	value   string
	allowed []string
}

func (c *Choice) String() string { return c.value }

func (c *Choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("it takes %s", OrList(c.allowed))
	}
	c.value = value
	return nil
}

// Type is left out of the help: the usage text has the words.
func (c *Choice) Type() string { return "WORD" }

// AddFormat adds --format with the given words, the first being the default.
func AddFormat(cmd *cobra.Command, allowed ...string) *Choice {
	return AddChoice(cmd, "format", "print as", allowed...)
}

// AddChoice adds a flag that takes one of a few words, the first being the default.
func AddChoice(cmd *cobra.Command, name, usage string, allowed ...string) *Choice {
	return addChoiceTo(cmd, cmd.Flags(), name, usage+" "+OrList(allowed), allowed)
}

// addChoiceTo adds the flag to one of the command's sets of flags, and has the shell complete its words.
func addChoiceTo(cmd *cobra.Command, flags *pflag.FlagSet, name, usage string, allowed []string) *Choice {
	c := &Choice{value: allowed[0], allowed: allowed}
	flags.Var(c, name, usage)
	complete := cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(name, complete) // it fails only for a flag that does not exist
	return c
}
