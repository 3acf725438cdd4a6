// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/failpoint"
)

func newStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "Stop a run and everything it started",
		Long: `Send the kill signal to a run, wait, kill what is left, and return when no process of the run is left. If its executor and
tacho run have died, what they left is killed at once.

RUN is ` + rundir.Words + `.`,
		Example: `  tacho stop last
  tacho stop last --signal INT --grace 30s`,
		Args:    cli.Arguments("RUN"),
		GroupID: cli.GroupMeasure,
	}
	outputDir := rundir.AddOutputDir(cmd)
	signalName := cmd.Flags().String("signal", "", "`SIGNAL` to send first (default: the --kill-signal of the run)")
	grace := 5 * time.Second
	cmd.Flags().Var(cli.Duration(&grace), "grace", "time to wait before the kill; 0 kills at once")
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number := unix.Signal(0)
		if *signalName != "" {
			var err error
			if number, err = parseSignal("--signal", *signalName); err != nil {
				return err
			}
		}
		entry, err := rundir.Find(*outputDir, args[0])
		if err != nil {
			return err
		}
		c, err := visit(cmd.Context(), entry)
		if isGone(err) {
			return killRemains(cmd, entry)
		}
		if err != nil {
			return err
		}
		failpoint.At("run.stop.connected")
		err = c.Stop(cmd.Context(), number, grace)
		failpoint.At("run.stop.stopped")
		if errors.Is(err, client.ErrLost) {
			err = nil // it ended with its task
		}
		return errors.Join(err, c.Close())
	}
	return cmd
}

// killRemains kills what a dead executor left of a run, unless its tacho run is alive and does so.
func killRemains(cmd *cobra.Command, entry record.Entry) error {
	address, err := addressOf(entry)
	if errors.Is(err, client.ErrLost) || err == nil && client.Owned(*address) {
		return fmt.Errorf("run %s is not running", entry.Name)
	}
	if err != nil {
		return err
	}
	if err := killExecutor(cmd.Context(), *address); err != nil {
		return err
	}
	cli.PrintError(cmd.ErrOrStderr(), lostExecutor(entry.Name))
	return nil
}
