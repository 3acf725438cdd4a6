// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"fmt"

	"github.com/spf13/cobra"

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
	}
	name := cmd.Flags().StringP("signal", "s", "SIGKILL", "send this `SIGNAL`")
	signals := []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT"}
	_ = cmd.RegisterFlagCompletionFunc("signal", cobra.FixedCompletions(signals, cobra.ShellCompDirectiveNoFileComp))
	return actOn(cmd, func(c *call, id string) (string, error) {
		return "signaled with " + *name, c.SignalAllocation(c.ctx, id, c.task(), *name)
	})
}

func newAllocRestart() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart ID [TASK]",
		Short: "Restart all running tasks of an allocation, or one",
		Long: "Restart all running tasks of an allocation, or one.\n\n" + allocHelp +
			" Tasks that have ended are not restarted.",
		Example: "  tacho alloc restart 5f3a\n  tacho alloc restart 5f3a web",
	}
	return actOn(cmd, func(c *call, id string) (string, error) {
		return "restarting", c.RestartAllocation(c.ctx, id, c.task())
	})
}

func newAllocStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop ID",
		Short: "Stop an allocation; another takes its place",
		Long: "Stop an allocation, and wait until all its tasks have ended. Another takes its place, unless its job was " +
			"stopped:\ntacho job stop stops all of them for good.\n\n" + allocHelp,
		Example: "  tacho alloc stop 5f3a",
	}
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to end")
	return actOn(cmd, func(c *call, id string) (string, error) {
		if err := c.StopAllocation(c.ctx, id); err != nil || *detach {
			return "stopping", err
		}
		wait := client.Wait{}
		for {
			now, err := c.Allocation(c.ctx, id, wait)
			if err != nil || now.Value.Ended() {
				return "stopped", err
			}
			wait = client.Wait{Index: now.Index, For: maxWait}
		}
	})
}

// actOn completes a command that acts on an allocation, or on one task of it, and prints what it has done.
func actOn(cmd *cobra.Command, act func(c *call, id string) (done string, err error)) *cobra.Command {
	return withAllocation(cmd, completeTasks, func(c *call) error {
		a, err := c.Allocation(c.ctx, c.args[0], client.Wait{})
		if err != nil {
			return err
		}
		done, err := act(c, a.Value.ID)
		if err != nil {
			return err
		}
		what := "allocation " + shortID(a.Value.ID) + " (" + a.Value.Name + ")"
		if task := c.task(); task != "" {
			what = "task " + task + " of " + what
		}
		_, err = fmt.Fprintf(c.out, "%s: %s\n", cli.Printable(what), done)
		return err
	})
}
