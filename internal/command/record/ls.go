// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package record has the commands that show records: ls, show, diff, compare, plot, export, report, and explain.
package record

import (
	"cmp"
	_ "embed" // of the help
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	all := []*cobra.Command{newDiff(), newCompare(), newExport(), newLs(), newPlot(), newReport(), newShow()}
	for _, cmd := range all {
		cmd.GroupID = cli.GroupRecords
	}
	return append(all, newExplain())
}

//go:embed help.txt
var help string

type lsOptions struct {
	outputDir *string
	format    *cli.Choice
	labels    []string
	states    []string
	limit     int
}

func newLs() *cobra.Command {
	cmd := cli.Described(help, "ls")
	cmd.Aliases = []string{"list"}
	o := &lsOptions{outputDir: rundir.AddOutputDir(cmd), format: cli.AddFormat(cmd, "table", "json")}
	cmd.Flags().StringArrayVar(&o.labels, "label", nil,
		"list only runs with this label: `KEY=VALUE`, or KEY for any value; may be repeated, all must match")
	cmd.Flags().StringSliceVar(&o.states, "state", nil,
		"list only runs in this `STATE`: running, exited or lost; may be repeated")
	cmd.Flags().Var(cli.Number(&o.limit, 0, math.MaxInt), "limit", "list at most `N` runs; 0 for all")
	words := cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("state", words) // fails only for a flag that does not exist
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.run(cmd) }
	return cmd
}

func states() []string { return []string{"running", "exited", "lost"} }

func (o *lsOptions) run(cmd *cobra.Command) error {
	for _, state := range o.states {
		if !slices.Contains(states(), state) {
			return cli.Usagef("--state %s: must be running, exited or lost", state)
		}
	}
	debug.SetGCPercent(400) // it ends soon, and all that it reads stays until then
	entries, err := record.ListBriefly(*o.outputDir)
	if err != nil {
		return err
	}
	var runs []listedRun
	damaged := 0
	for _, entry := range entries {
		if entry.Err != nil {
			cli.PrintError(cmd.ErrOrStderr(), entry.Err)
			damaged++
			continue
		}
		run := list(entry)
		if o.wants(run) && (o.limit <= 0 || len(runs) < o.limit) {
			runs = append(runs, run)
		}
	}
	if err := o.print(cmd, runs); err != nil {
		return err
	}
	if len(entries) == 0 && o.format.String() == "table" {
		cli.PrintError(cmd.ErrOrStderr(), rundir.NoRunsError(*o.outputDir))
	}
	if damaged > 0 {
		return cli.ErrReported
	}
	return nil
}

func (o *lsOptions) wants(run listedRun) bool {
	for _, label := range o.labels {
		key, value, hasValue := strings.Cut(procstats.EscapeName(label), "=")
		got, found := run.Labels[key]
		if !found || hasValue && got != value {
			return false
		}
	}
	return len(o.states) == 0 || slices.Contains(o.states, string(run.State))
}

// listedRun is a run in the list, and its JSON with --format json.
type listedRun struct {
	ID          string       `json:"id"`
	Path        string       `json:"path"`
	State       record.State `json:"state"`
	Where       string       `json:"where,omitempty"`
	StartedAt   time.Time    `json:"started_at"`
	WallSeconds *float64     `json:"wall_seconds"`
	ExitCode    *int         `json:"exit_code"`
	Signal      *int         `json:"signal"`
	CPUSeconds  *float64     `json:"cpu_seconds_total"`
	PeakBytes   *float64     `json:"memory_peak_bytes"`
	// The guarantees of the two numbers, and the measurements that they were taken from; empty without a number.
	CPUGuarantee  procstats.Guarantee `json:"cpu_seconds_total_guarantee,omitempty"`
	CPUSource     string              `json:"cpu_seconds_total_source,omitempty"`
	PeakGuarantee procstats.Guarantee `json:"memory_peak_bytes_guarantee,omitempty"`
	PeakSource    string              `json:"memory_peak_bytes_source,omitempty"`
	Verdict       record.Verdict      `json:"verdict,omitempty"`
	Outcome       record.Outcome      `json:"outcome,omitempty"`
	Command       []string            `json:"command"`
	Message       string              `json:"message,omitempty"`
	Labels        map[string]string   `json:"labels"`
}

func list(entry record.Entry) listedRun {
	r := entry.Record
	rundir.UpdateState(r, kernel.HostFS())
	cpu, peak := r.Headline[procstats.HeadlineCPU.String()], r.Headline[procstats.HeadlineMemoryPeak.String()]
	return listedRun{
		ID: entry.Name, Path: entry.Dir, State: r.State, Where: r.Where, StartedAt: r.StartedAt,
		WallSeconds: r.WallSeconds, ExitCode: r.ExitCode, Signal: r.Signal,
		CPUSeconds: cpu.Value, PeakBytes: peak.Value, CPUGuarantee: cpu.Guarantee, PeakGuarantee: peak.Guarantee,
		CPUSource: cpu.Source, PeakSource: peak.Source,
		Verdict: r.Diagnosis.Verdict, Outcome: r.End().Outcome, Command: r.Command, Message: r.Message, Labels: r.Labels,
	}
}

func (o *lsOptions) print(cmd *cobra.Command, runs []listedRun) error {
	if runs == nil {
		runs = []listedRun{} // an empty list, not null
	}
	return cli.Print(cmd, o.format, runs, func(p cli.Palette) string { return runsTable(p, runs) })
}

func runsTable(p cli.Palette, runs []listedRun) string {
	if len(runs) == 0 {
		return ""
	}
	t := cli.Table{
		Header: []string{"RUN", "STARTED", "END", "EXIT", "WALL", "CPU", "PEAK", "COMMAND"},
		Right:  []int{3, 4, 5, 6},
		Width:  p.Columns,
		Leave:  []int{1, 3, cli.Shorten, 4, 5}, // the name has the time of the start
		Least:  map[int]int{0: 12, 7: 14},
	}
	for _, run := range runs {
		t.Add(
			cli.Plain(cli.Printable(run.ID)),
			cli.Plain(run.StartedAt.Local().Format("2006-01-02 15:04:05")),
			run.end(p),
			cli.Plain(summary.ExitText(run.ExitCode, run.Signal)),
			cli.Plain(cli.Optional(procstats.Seconds, run.WallSeconds)),
			cli.Plain(bounded(run.CPUGuarantee, procstats.Seconds, run.CPUSeconds)),
			cli.Plain(bounded(run.PeakGuarantee, procstats.Bytes, run.PeakBytes)),
			cli.Plain(cli.CommandLine(run.Command)),
		)
	}
	return t.Render(p)
}

// end returns how a run ended, or the state of one that has not.
func (run *listedRun) end(p cli.Palette) cli.Cell {
	if run.Outcome != "" {
		return cli.Painted(string(run.Outcome), summary.OutcomePaint(p, run.Outcome))
	}
	return cli.Painted(run.stateText(), summary.StatePaint(p, run.State))
}

func (run *listedRun) stateText() string { return cli.Printable(cmp.Or(run.Where, string(run.State))) }

// bounded marks a value that is only a bound.
func bounded(g procstats.Guarantee, unit procstats.Unit, value *float64) string {
	if value == nil || g.Vacuous(*value) {
		return procstats.NoValue
	}
	return cli.Bounded(g, unit.Text(*value))
}
