// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

func newJobStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop ID",
		Short: "Stop a job",
		Long: `Stop all allocations of a job, and wait until they have ended. With --purge the job is then removed from the agent's state;
with --detach it does not wait.`,
		Example: `  tacho job stop web
  tacho job stop --purge web`,
		Args: cli.Arguments("ID"),
	}
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to end")
	purge := cmd.Flags().Bool("purge", false, "remove the job from the agent's state")
	return withAgent(cmd, completeJobs, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		job, err := findJob(cmd.Context(), agent, args[0])
		if err != nil {
			return err
		}
		id := job.Value.ID
		w, err := newWatch(cmd, agent, id)
		if err != nil {
			return err
		}
		// A purged job cannot be queried any more: it is stopped first.
		if err := agent.StopJob(cmd.Context(), id, *purge && *detach); err != nil {
			return err
		}
		if !*detach {
			if err := w.untilEnded(cmd.Context()); err != nil {
				return err
			}
		}
		if *purge && !*detach {
			if err := agent.StopJob(cmd.Context(), id, true); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", stoppedText(*detach, *purge), cli.Printable(id))
		return err
	})
}

func stoppedText(detach, purge bool) string {
	switch {
	case detach && purge:
		return "purging"
	case detach:
		return "stopping"
	case purge:
		return "purged"
	}
	return "stopped"
}
