// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
)

// adviseOptions are the flags of tacho advise.
type adviseOptions struct {
	outputDir  *string
	format     *cli.Choice
	job, alloc string
	coreMHz    int
	connection *connection
	cluster    clusterOptions
}

// mostCoreMHz is the highest --core-mhz: no core counts for more.
const mostCoreMHz = 100_000

func newAdvise() *cobra.Command {
	cmd := cli.Described(help, "advise")
	cmd.GroupID = cli.GroupRecords
	o := &adviseOptions{outputDir: rundir.AddOutputDir(cmd), format: cli.AddFormat(cmd, "text", "json")}
	flags := cmd.Flags()
	flags.StringVar(&o.job, "job", "", "advise on the tasks of all allocations of this `JOB`")
	flags.StringVar(&o.alloc, "alloc", "", "advise on the tasks of this allocation, an `ID` or the name of a job")
	o.coreMHz = 1000
	flags.Var(cli.Number(&o.coreMHz, 1, mostCoreMHz), "core-mhz",
		"what a core counts for in the job file: that of the node's cpu.frequency")
	o.connection = addConnectionFlags(cmd)
	o.cluster.addFlags(cmd)
	cmd.ValidArgsFunction = rundir.Complete(o.outputDir, 1000)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if ours, err := o.cluster.check(cmd, args); ours || err != nil {
			if err == nil {
				err = o.size(cmd, args)
			}
			return err
		}
		for _, name := range []string{"job", "alloc"} {
			if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
				return cli.Usagef("--%s is empty (see %s --help)", name, cmd.CommandPath())
			}
		}
		if (o.job != "" || o.alloc != "") && len(args) > 0 || o.job != "" && o.alloc != "" {
			return cli.Usagef("RUN, --job and --alloc are mutually exclusive")
		}
		histories, err := o.histories(cmd.Context(), args)
		if err != nil {
			return err
		}
		return o.print(cmd, histories)
	}
	return cmd
}

// histories returns records by the name of a task; those of runs have the name "command".
func (o *adviseOptions) histories(ctx context.Context, args []string) (map[string][]*record.Record, error) {
	if o.job == "" && o.alloc == "" {
		records, err := o.recordsOfRuns(args)
		return map[string][]*record.Record{"command": records}, err
	}
	agent, err := o.connection.open(ctx)
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	histories, err := o.recordsOfTasks(ctx, agent)
	return histories, explain(err)
}

func (o *adviseOptions) recordsOfRuns(args []string) ([]*record.Record, error) {
	if len(args) == 0 {
		args = []string{"last"}
	}
	var records []*record.Record
	for _, word := range args {
		named, err := rundir.Find(*o.outputDir, word)
		if err != nil {
			return nil, err
		}
		history, err := rundir.History(named)
		if err != nil {
			return nil, err
		}
		for _, r := range history {
			if !slices.ContainsFunc(records, func(other *record.Record) bool { return other.ID == r.ID }) {
				records = append(records, r)
			}
		}
	}
	return records, nil
}

func (o *adviseOptions) recordsOfTasks(ctx context.Context, agent *client.Client) (map[string][]*record.Record, error) {
	all, err := o.allocations(ctx, agent)
	if err != nil {
		return nil, err
	}
	histories := map[string][]*record.Record{}
	for _, a := range all {
		for task := range a.TaskStates {
			final, err := recordOf(ctx, agent, a.ID, task)
			if err != nil {
				return nil, err
			}
			if final != nil {
				histories[task] = append(histories[task], final)
			}
		}
	}
	if len(histories) == 0 {
		return nil, fmt.Errorf("no record: no task of %s has ended", o.job+o.alloc)
	}
	return histories, nil
}

// allocations returns those of --job, or that of --alloc. A job can be unknown to the agent that still has
// allocations of it.
func (o *adviseOptions) allocations(ctx context.Context, agent *client.Client) ([]apijson.Allocation, error) {
	if o.alloc != "" {
		id, err := resolveAllocation(ctx, agent, o.alloc)
		if err != nil {
			return nil, err
		}
		one, err := agent.Allocation(ctx, id, client.Wait{})
		return []apijson.Allocation{one.Value}, err
	}
	all, err := agent.Allocations(ctx, "")
	if err != nil {
		return nil, err
	}
	name := o.job
	job, jobErr := findJob(ctx, agent, name)
	if jobErr == nil {
		name = job.Value.ID
	}
	of := slices.DeleteFunc(all.Value, func(a apijson.Allocation) bool { return a.JobID != name })
	if len(of) == 0 && jobErr != nil {
		return nil, jobErr
	}
	return of, nil
}

func (o *adviseOptions) print(cmd *cobra.Command, histories map[string][]*record.Record) error {
	out := cmd.OutOrStdout()
	all := map[string]record.Advice{}
	ofTasks, of := o.job != "" || o.alloc != "", record.AdviseRuns
	if ofTasks {
		of = record.AdviseTask
	}
	for name, records := range histories {
		all[name] = of(records)
	}
	if o.format.String() == "json" {
		return cli.PrintJSON(out, all)
	}
	var text strings.Builder
	palette := cli.PaletteFor(cmd, out)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			text.WriteByte('\n')
		}
		if ofTasks {
			text.WriteString(palette.Bold("Task "+cli.Printable(name)) + "\n")
		}
		advice := all[name]
		for line := range strings.Lines(advice.Text(o.coreMHz)) {
			text.WriteString(cli.Hang(palette, "", "", strings.TrimSuffix(line, "\n"), nil))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
