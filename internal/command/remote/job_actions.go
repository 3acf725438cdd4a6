// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

func newJobRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a job",
		Long: `Register the job of a job file and start its allocations. Allocations of an earlier version continue ` +
			`if their group is
unchanged, otherwise they are stopped. FILE may be - for stdin.

Waits until every allocation has been running for the time of --settle, or has ended, and prints events. The ` +
			`exit code is
1 if a task failed or was restarted, or if the node cannot run an allocation. With --detach, --json or ` +
			`--template it does not wait.`,
		Example: `  tacho job run web.nomad.hcl
  tacho job run --detach --var count=3 web.nomad.hcl`,
	}
	file := jobFileFlags(cmd.Flags())
	detach := cmd.Flags().Bool("detach", false, "do not wait until the tasks are running")
	settle := 2 * time.Second
	cmd.Flags().Var(cli.Duration(&settle), "settle", "time for which tasks must be running")
	output := addOutputFlags(cmd)
	return withAgent(cmd, nil, func(c *call) error {
		source, err := file.read(cmd, c.args[0])
		if err != nil {
			return err
		}
		before, err := c.Allocations(c.ctx, "")
		if err != nil {
			return err
		}
		registered, err := c.RunJob(c.ctx, source)
		if mistakes, ok := mistakesOf(err); ok {
			printMistakes(cmd.ErrOrStderr(), mistakes)
			return cli.ErrReported
		}
		if err != nil || output.set() {
			return show(c, output, registered, err, nil)
		}
		w, err := newWatch(c, registered.Value.Tacho.JobID)
		if err != nil {
			return err
		}
		if err := w.printPlan(&registered.Value, before.Value); err != nil || *detach {
			return err
		}
		return w.untilRunning(settle)
	})
}

// mistakesOf returns the lines of an error that rejects a job file; ok is false for other errors.
func mistakesOf(err error) (lines []string, ok bool) {
	refused, ok := errors.AsType[*client.StatusError](err)
	if !ok || !strings.Contains(refused.Text, "\n") {
		return nil, false
	}
	return strings.Split(refused.Text, "\n"), true
}

func newJobStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop ID",
		Short: "Stop a job",
		Long: `Stop all allocations of a job, and wait until they have ended. With --purge the job is then removed ` +
			`from the agent's state;
with --detach it does not wait.`,
		Example: `  tacho job stop web
  tacho job stop --purge web`,
	}
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to end")
	purge := cmd.Flags().Bool("purge", false, "remove the job from the agent's state")
	return withAgent(cmd, completeJobs, func(c *call) error {
		job, err := findJob(c.ctx, c.Client, c.args[0])
		if err != nil {
			return err
		}
		id := job.Value.ID
		w, err := newWatch(c, id)
		if err != nil {
			return err
		}
		// A purged job cannot be queried any more: it is stopped first.
		err = c.StopJob(c.ctx, id, *purge && *detach)
		if err == nil && !*detach {
			err = w.untilEnded()
		}
		if err == nil && *purge && !*detach {
			err = c.StopJob(c.ctx, id, true)
		}
		if err == nil {
			_, err = fmt.Fprintf(c.out, "%s %s\n", stoppedText(*detach, *purge), cli.Printable(id))
		}
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
