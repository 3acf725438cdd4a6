// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Choice is a flag that takes one of a few words.
type Choice struct {
	value   string
	allowed []string
}

// String implements pflag.Value: it returns the chosen word.
func (c *Choice) String() string { return c.value }

// Set implements pflag.Value.
func (c *Choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("must be %s", OrList(c.allowed))
	}
	c.value = value
	return nil
}

// Type implements pflag.Value. The help shows it after the flag; the words are in the usage text.
func (c *Choice) Type() string { return "WORD" }

// NewChoice returns a choice that is made, and is no flag.
func NewChoice(word string) *Choice { return &Choice{value: word, allowed: []string{word}} }

// AddFormat adds --format. The first word is the default.
func AddFormat(cmd *cobra.Command, allowed ...string) *Choice {
	return AddChoice(cmd, "format", "output format:", allowed...)
}

// AddChoice adds a flag that takes one of the allowed words. The first is the default.
func AddChoice(cmd *cobra.Command, name, usage string, allowed ...string) *Choice {
	return addChoiceTo(cmd, cmd.Flags(), name, usage+" "+OrList(allowed), allowed)
}

// addChoiceTo adds the flag to one of the flag sets of cmd, with shell completion.
func addChoiceTo(cmd *cobra.Command, flags *pflag.FlagSet, name, usage string, allowed []string) *Choice {
	c := &Choice{value: allowed[0], allowed: allowed}
	flags.Var(c, name, usage)
	complete := cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails only for a flag that does not exist
	return c
}
