// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package command holds the commands of tacho: flags, text and exit codes. What they show and start is made
// elsewhere.
package command

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/agent"
	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/command/doctor"
	"github.com/tachograph/tacho/command/record"
	"github.com/tachograph/tacho/command/remote"
	"github.com/tachograph/tacho/command/run"
	"github.com/tachograph/tacho/version"
)

// commands are all commands, in no order; each says its group.
func commands() []*cobra.Command {
	return slices.Concat(run.Commands(), record.Commands(), remote.Commands(), []*cobra.Command{agent.Command(), doctor.Command(), newVersion()})
}

// Execute runs tacho with its arguments, without the program's name, and returns the exit code. A fault is told
// on stderr in one line. Cancelling ctx ends commands that wait for something.
func Execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(agent.LongDashes(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	knowShells(root)
	executed, err := root.ExecuteContextC(ctx)
	return cli.Report(stderr, executed, err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tacho",
		Short: "Measure what a command really uses, what it waits for, and why it ends",
		Long: `tacho is a recorder for tasks: what did it use, what did it wait for, and why did it end?

Every flag can be set by an environment variable too: TACHO_ and the flag's name in capitals with _ for -,
as named in the help. A flag on the command line goes before the variable, the variable before the default.
NO_COLOR is honoured.

Exit codes: 0 done, 1 a fault, 2 wrong usage. The commands that run another command exit with that command's
code; a fault of their own is 125.`,
		Example: `  tacho run -- make -j4
  tacho ls
  tacho show last
  tacho explain memory_bytes`,
		Version:           version.String(),
		Args:              cli.KnownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: cli.ApplyEnvironment,
		// Two typing errors still find the command that was meant.
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
	}
	root.AddGroup(
		&cobra.Group{ID: cli.GroupMeasure, Title: "Measure:"},
		&cobra.Group{ID: cli.GroupRecords, Title: "Look at records:"},
		&cobra.Group{ID: cli.GroupAgent, Title: "Run jobs and watch them:"},
		&cobra.Group{ID: cli.GroupHost, Title: "This machine and its numbers:"},
	)
	cli.AddColor(root)
	root.SetFlagErrorFunc(cli.WrongFlag)
	for _, command := range commands() {
		root.AddCommand(command)
	}
	cli.DocumentEnvironment(root)
	return root
}

// knowShells makes cobra's own completion command refuse a shell that it does not know, instead of helping with it.
func knowShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = cli.KnownCommand
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}
