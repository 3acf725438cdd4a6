// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

func newAllocSignal() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signal ID [TASK]",
		Short: "Send a signal to all running tasks of an allocation, or to one",
		Long:  "Send a signal to all running tasks of an allocation, or to one.\n\n" + allocHelp,
		Example: `  tacho alloc signal -s SIGHUP 5f3a
  tacho alloc signal -s SIGUSR1 5f3a web`,
		Args: cli.Arguments("ID", "[TASK]"),
	}
	name := cmd.Flags().StringP("signal", "s", "SIGKILL", "send this `SIGNAL`")
	signals := []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT"}
	_ = cmd.RegisterFlagCompletionFunc("signal", cobra.FixedCompletions(signals, cobra.ShellCompDirectiveNoFileComp))
	return actOn(cmd, func(cmd *cobra.Command, agent *client.Client, a *apijson.Allocation, task string) (string, error) {
		return "signaled with " + *name, agent.SignalAllocation(cmd.Context(), a.ID, task, *name)
	})
}

func newAllocRestart() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart ID [TASK]",
		Short: "Restart all running tasks of an allocation, or one",
		Long: "Restart all running tasks of an allocation, or one.\n\n" + allocHelp +
			" Tasks that have ended are not restarted.",
		Example: "  tacho alloc restart 5f3a\n  tacho alloc restart 5f3a web",
		Args:    cli.Arguments("ID", "[TASK]"),
	}
	return actOn(cmd, func(cmd *cobra.Command, agent *client.Client, a *apijson.Allocation, task string) (string, error) {
		return "restarting", agent.RestartAllocation(cmd.Context(), a.ID, task)
	})
}

func newAllocStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop ID",
		Short: "Stop an allocation; another takes its place",
		Long: "Stop an allocation, and wait until all its tasks have ended. Another takes its place, unless its job was " +
			"stopped:\ntacho job stop stops all of them for good.\n\n" + allocHelp,
		Example: "  tacho alloc stop 5f3a",
		Args:    cli.Arguments("ID"),
	}
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to end")
	return actOn(cmd, func(cmd *cobra.Command, agent *client.Client, a *apijson.Allocation, _ string) (string, error) {
		if err := agent.StopAllocation(cmd.Context(), a.ID); err != nil {
			return "", err
		}
		if *detach {
			return "stopping", nil
		}
		wait := client.Wait{}
		for {
			now, err := agent.Allocation(cmd.Context(), a.ID, wait)
			if err != nil || now.Value.Ended() {
				return "stopped", err
			}
			wait = client.Wait{Index: now.Index, For: maxWait}
		}
	})
}

// allocAction acts on an allocation, or on one task of it, and returns what it has done.
type allocAction = func(cmd *cobra.Command, agent *client.Client, a *apijson.Allocation, task string) (done string,
	err error)

// actOn completes a command that acts on an allocation and prints what it has done.
func actOn(cmd *cobra.Command, act allocAction) *cobra.Command {
	return withAllocation(cmd, completeTasks, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		a, err := agent.Allocation(cmd.Context(), args[0], client.Wait{})
		if err != nil {
			return err
		}
		task := taskOf(args)
		done, err := act(cmd, agent, &a.Value, task)
		if err != nil {
			return err
		}
		what := "allocation " + shortID(a.Value.ID) + " (" + cli.Printable(a.Value.Name) + ")"
		if task != "" {
			what = "task " + cli.Printable(task) + " of " + what
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", what, done)
		return err
	})
}
