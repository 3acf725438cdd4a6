// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

// Package agent says that the agent needs Linux.
package agent

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
)

// Command returns tacho agent, which fails.
func Command() *cobra.Command {
	return &cobra.Command{
		Use: "agent", GroupID: cli.GroupHost, Short: "Run jobs; requires Linux", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("tacho agent requires Linux; on %s only tacho run and the commands of remote agents work",
				runtime.GOOS)
		},
	}
}

// LongDashes changes nothing.
func LongDashes(args []string) []string { return args }
