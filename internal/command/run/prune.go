// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/removal"
	"github.com/tachograph/tacho/procstats/kernel"
)

func newPrune() *cobra.Command {
	cmd := cli.Described(help, "prune")
	cmd.GroupID = cli.GroupRecords
	outputDir := rundir.AddOutputDir(cmd)
	keep := 10
	cmd.Flags().Var(cli.Number(&keep, 0, math.MaxInt), "keep", "keep the newest `N` runs")
	var olderThan time.Duration
	cmd.Flags().Var(cli.Duration(&olderThan), "older-than", "delete only runs that ended before this time")
	dryRun := cmd.Flags().Bool("dry-run", false, "only print what would be deleted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		entries, err := record.ListBriefly(*outputDir)
		if err != nil {
			return err
		}
		var errs []error
		if !*dryRun {
			errs = append(errs, killOrphans(cmd.Context()))
		}
		var deleted strings.Builder
		for _, entry := range prunable(entries, keep, olderThan, time.Now()) {
			var err error
			if !*dryRun {
				if err = failpoint.Err("run.prune.delete"); err == nil {
					err = removal.All(cmd.Context(), entry.Dir, record.InfoFile)
				}
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("prune: %w", err))
				continue
			}
			fmt.Fprintln(&deleted, cli.Printable(entry.Name))
		}
		_, err = io.WriteString(cmd.OutOrStdout(), deleted.String())
		return errors.Join(append(errs, err)...)
	}
	return cmd
}

// prunable returns the ended runs that are old enough, without the newest keep. entries are newest first.
func prunable(entries []record.Entry, keep int, olderThan time.Duration, now time.Time) []record.Entry {
	var list []record.Entry
	for _, entry := range entries {
		if entry.Err != nil {
			continue
		}
		if rundir.UpdateState(entry.Record, kernel.HostFS()); entry.Record.State == record.Running {
			continue
		}
		if keep > 0 {
			keep--
			continue
		}
		if endedAgo(entry.Record, now) > olderThan {
			list = append(list, entry)
		}
	}
	return list
}

// endedAgo returns how long ago a run ended: by the clock that starts at the boot, if its process and this one share
// that. The wall clock may have been set since.
func endedAgo(r *record.Record, now time.Time) time.Duration {
	home, _ := r.Measurer()
	own, err := kernel.OwnHome(kernel.HostFS())
	if home.TimeNamespace = cmp.Or(home.TimeNamespace, own.TimeNamespace); err == nil && home.BootID == own.BootID &&
		own.BootID != kernel.UnknownBoot && home.TimeNamespace == own.TimeNamespace && r.StartTicks > 0 {
		span, _ := r.Span()
		return kernel.SinceBoot() - kernel.Ticks(r.StartTicks) - time.Duration(span*float64(time.Second))
	}
	ended := r.EndedAt
	if ended.IsZero() {
		ended = r.StartedAt
	}
	return now.Sub(ended)
}
