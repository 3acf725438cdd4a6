// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package command is the command line of tacho: the root command, above one package for each family of commands.
package command

import (
	"cmp"
	"context"
	_ "embed" // of the help
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/agent"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/doctor"
	records "github.com/tachograph/tacho/internal/command/record"
	"github.com/tachograph/tacho/internal/command/remote"
	"github.com/tachograph/tacho/internal/command/run"
	"github.com/tachograph/tacho/internal/version"
)

// Execute runs tacho with its arguments, without the name of the program, and returns the exit code. An error is
// printed on stderr in one line. Cancelling ctx ends commands that wait for something.
func Execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := tree(commandsFor(args))
	root.SetArgs(cli.HelpAsFlag(agent.LongDashes(args)))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	rejectUnknownShells(root)
	unknown := cli.RejectUnknownTopics(root)
	executed, err := root.ExecuteContextC(ctx)
	return cli.Report(stderr, executed, cmp.Or(err, unknown()))
}

//go:embed help.txt
var help string

// Root returns the tree of all commands, for what documents them.
func Root() *cobra.Command { return tree(commandsFor(nil)) }

// commandsFor returns the commands that a command line can name. Scripts start these two so often that the flags of the
// others cost time.
func commandsFor(args []string) []*cobra.Command {
	switch {
	case len(args) > 0 && args[0] == "run":
		return run.Commands()
	case len(args) > 0 && args[0] == "version":
		return []*cobra.Command{newVersion()}
	}
	return slices.Concat(run.Commands(), records.Commands(), remote.Commands(),
		[]*cobra.Command{agent.Command(), doctor.Command(), newVersion()})
}

// tree returns the root of commands.
func tree(commands []*cobra.Command) *cobra.Command {
	root := cli.Described(help, "tacho")
	root.Version, root.PersistentPreRunE, root.SilenceErrors, root.SilenceUsage = version.String(), prepare, true, true
	root.AddGroup(
		&cobra.Group{ID: cli.GroupMeasure, Title: "Measure"},
		&cobra.Group{ID: cli.GroupRecords, Title: "Look at records"},
		&cobra.Group{ID: cli.GroupAgent, Title: "Run and watch jobs"},
		&cobra.Group{ID: cli.GroupHost, Title: "This machine and its measurements"},
	)
	cli.AddColor(root)
	root.SetFlagErrorFunc(cli.FlagError)
	cli.AddSubcommands(root, commands...)
	for _, topic := range []string{"benchmarks", "exit-codes", "selection", "budgets", "environment", "sockets"} {
		cli.AddSubcommands(root, cli.Topic(help, topic))
	}
	cli.LayOutHelp(root)
	return root
}

// prepare is called before every command.
func prepare(cmd *cobra.Command, args []string) error {
	if err := cli.ApplyEnvironment(cmd, args); err != nil {
		return err
	}
	if cmd.Name() != "version" { // scripts ask for it all the time
		run.EndOrphans(cmd)
	}
	return nil
}

// rejectUnknownShells replaces what cobra's completion command does with a shell that it does not support: print help.
func rejectUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		cli.AddSubcommands(completion)
	}
}

func newVersion() *cobra.Command {
	cmd := cli.Described(help, "version")
	cmd.GroupID = cli.GroupHost
	format := cli.AddFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format.String() == "json" {
			return cli.PrintJSON(cmd.OutOrStdout(), map[string]string{
				"version": version.String(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				"schema_version": record.SchemaVersion,
			})
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "tacho %s\n%s %s/%s, record schema %s\n",
			version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH, record.SchemaVersion)
		return err
	}
	return cmd
}
