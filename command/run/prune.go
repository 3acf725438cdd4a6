// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/command/rundir"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

func newPrune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete the records of runs that have ended",
		Long: `Delete the records of runs that have ended, the newest --keep left alone. Running runs are never deleted,
nor what cannot be read as a record. What runs left behind that never began, and executors that died together with
their callers, is cleared away too.`,
		Example: `  tacho prune --keep 20
  tacho prune --keep 0 --older-than 168h --dry-run`,
		Args:    cli.Arguments(),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddFlag(cmd)
	keep := cmd.Flags().Int("keep", 10, "how many of the newest ended runs stay")
	olderThan := cmd.Flags().Duration("older-than", 0, "delete only runs that ended longer ago than this")
	dryRun := cmd.Flags().Bool("dry-run", false, "only say what would be deleted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *keep < 0 || *olderThan < 0 {
			return cli.Usagef("--keep and --older-than cannot be negative")
		}
		entries, err := rundir.List(*outputDir)
		if err != nil {
			return err
		}
		var errs []error
		if !*dryRun {
			errs = append(errs, clearStrays(cmd.Context()))
		}
		entries, unbegun := rundir.SplitIncomplete(entries)
		p := pruning{out: cmd.OutOrStdout(), dry: *dryRun}
		return errors.Join(append(errs,
			p.delete(prunable(entries, *keep, *olderThan, time.Now()), os.RemoveAll),
			p.delete(rundir.OldIncomplete(unbegun, *olderThan, time.Now()), rundir.RemoveIncomplete))...)
	}
	return cmd
}

// pruning deletes folders of runs and says which.
type pruning struct {
	out io.Writer
	dry bool
}

func (p pruning) delete(entries []record.Entry, remove func(dir string) error) error {
	var errs []error
	for _, entry := range entries {
		if !p.dry {
			if err := remove(entry.Dir); err != nil {
				errs = append(errs, fmt.Errorf("prune: %w", err))
				continue
			}
		}
		if _, err := fmt.Fprintln(p.out, cli.Printable(entry.Name)); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

// prunable returns the ended runs beyond the newest keep, as far as they are old enough. entries are newest first.
func prunable(entries []record.Entry, keep int, olderThan time.Duration, now time.Time) []record.Entry {
	var list []record.Entry
	for _, entry := range entries {
		if entry.Err != nil || rundir.StateOf(entry.Record, kernel.HostFS()) == record.Running {
			continue
		}
		if keep > 0 {
			keep--
			continue
		}
		ended := entry.Record.EndedAt
		if ended.IsZero() {
			ended = entry.Record.StartedAt
		}
		if now.Sub(ended) > olderThan {
			list = append(list, entry)
		}
	}
	return list
}
