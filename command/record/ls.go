// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/command/rundir"
	"github.com/tachograph/tacho/command/summary"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

type lsOptions struct {
	outputDir *string
	format    *cli.Choice
	labels    []string
	states    []string
	limit     int
}

func newLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List past and running runs, newest first",
		Long: `List the runs in a folder of runs, newest first.

A run whose record says running and whose executor is gone is shown as lost: it was cut off, by a crash of the
machine for instance, and nobody wrote its record to the end. Values that were not measured are shown as ` + procstats.NoValue + `,
those that are bounds with ≥ or ≤.
A record that cannot be read is told on stderr, the others are listed all the same, and the exit code is 1.`,
		Example: `  tacho ls
  tacho ls --state exited --label team=db
  tacho ls --format json | jq '.[0].memory_peak_bytes'`,
		Args:    cli.Arguments(),
		GroupID: cli.GroupRecords,
	}
	o := &lsOptions{outputDir: rundir.AddFlag(cmd), format: cli.AddFormat(cmd, "table", "json", "csv")}
	cmd.Flags().StringArrayVar(&o.labels, "label", nil, "list only runs with this `KEY=VALUE`, or with this KEY; all of them must fit")
	cmd.Flags().StringSliceVar(&o.states, "state", nil, "list only runs in this `STATE`: running, exited or lost")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "list at most so many runs; 0 for all")
	states := cobra.FixedCompletions([]string{"running", "exited", "lost"}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("state", states) // it fails only for a flag that does not exist
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.run(cmd) }
	return cmd
}

func (o *lsOptions) run(cmd *cobra.Command) error {
	for _, state := range o.states {
		switch record.State(state) {
		case record.Running, record.Exited, record.Lost:
		default:
			return cli.Usagef("there is no state %q: running, exited or lost", state)
		}
	}
	if o.limit < 0 {
		return cli.Usagef("--limit %d: it cannot be negative", o.limit)
	}
	entries, err := rundir.List(*o.outputDir)
	if err != nil {
		return err
	}
	entries, unbegun := rundir.SplitIncomplete(entries)
	if len(unbegun) > 0 {
		cli.PrintError(cmd.ErrOrStderr(), rundir.IncompleteError(unbegun))
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
		cli.PrintError(cmd.ErrOrStderr(), rundir.NoRuns(*o.outputDir))
	}
	if damaged > 0 {
		return cli.ExitWith(cli.CodeError, nil)
	}
	return nil
}

func (o *lsOptions) wants(run listedRun) bool {
	for _, label := range o.labels {
		key, value, hasValue := strings.Cut(label, "=")
		got, found := run.Labels[key]
		if !found || hasValue && got != value {
			return false
		}
	}
	if len(o.states) == 0 {
		return true
	}
	for _, state := range o.states {
		if record.State(state) == run.State {
			return true
		}
	}
	return false
}

// listedRun is one run in the list, and the shape of --format json.
type listedRun struct {
	Name        string       `json:"name"`
	Path        string       `json:"path"`
	State       record.State `json:"state"`
	StartedAt   time.Time    `json:"started_at"`
	WallSeconds *float64     `json:"wall_seconds"`
	ExitCode    *int         `json:"exit_code"`
	Signal      *int         `json:"signal"`
	CPUSeconds  *float64     `json:"cpu_seconds_total"`
	PeakBytes   *float64     `json:"memory_peak_bytes"`
	// What the two numbers guarantee; empty where there is none.
	CPUGuarantee  procstats.Guarantee `json:"cpu_seconds_total_guarantee,omitempty"`
	PeakGuarantee procstats.Guarantee `json:"memory_peak_bytes_guarantee,omitempty"`
	Verdict       record.Verdict      `json:"verdict,omitempty"`
	Outcome       record.Outcome      `json:"outcome,omitempty"`
	Command       []string            `json:"command"`
	Message       string              `json:"message,omitempty"`
	Labels        map[string]string   `json:"labels"`
}

func list(entry record.Entry) listedRun {
	r := entry.Record
	cpu, peak := headline(r, procstats.HeadlineCPU), headline(r, procstats.HeadlineMemoryPeak)
	return listedRun{
		Name: entry.Name, Path: entry.Dir, State: rundir.StateOf(r, kernel.HostFS()), StartedAt: r.StartedAt,
		WallSeconds: r.WallSeconds, ExitCode: r.ExitCode, Signal: r.Signal,
		CPUSeconds: cpu.Value, PeakBytes: peak.Value, CPUGuarantee: cpu.Guarantee, PeakGuarantee: peak.Guarantee,
		Verdict: r.Diagnosis.Verdict, Outcome: r.End().Outcome, Command: r.Command, Message: r.Message, Labels: r.Labels,
	}
}

// headline returns a headline of a record by its number; the zero value where the record has none.
func headline(r *record.Record, id procstats.ID) record.HeadlineValue {
	m, _ := procstats.Lookup(id)
	return r.Headline[m.Name]
}

func (o *lsOptions) print(cmd *cobra.Command, runs []listedRun) error {
	out := cmd.OutOrStdout()
	switch o.format.String() {
	case "json":
		if runs == nil {
			runs = []listedRun{} // an empty list, not null
		}
		return cli.PrintJSON(out, runs)
	case "csv":
		return printRunsCSV(out, runs)
	}
	return printRunsTable(out, cli.PaletteFor(cmd, out), runs)
}

func printRunsTable(out io.Writer, p cli.Palette, runs []listedRun) error {
	if len(runs) == 0 {
		return nil
	}
	columns, _ := cli.TerminalSize(out)
	t := cli.Table{
		Header: []string{"RUN", "STATE", "STARTED", "WALL", "EXIT", "CPU", "PEAK MEMORY", "OUTCOME", "COMMAND"},
		Right:  map[int]bool{3: true, 4: true, 5: true, 6: true},
		Width:  columns,
	}
	for _, run := range runs {
		t.Add(
			cli.Cell{Text: cli.Printable(run.Name)},
			cli.Cell{Text: string(run.State), Paint: summary.StatePaint(p, run.State)},
			cli.Cell{Text: run.StartedAt.Local().Format("2006-01-02 15:04:05")},
			cli.Cell{Text: cli.Optional(procstats.Seconds, run.WallSeconds)},
			cli.Cell{Text: summary.ExitText(run.ExitCode, run.Signal)},
			cli.Cell{Text: bounded(run.CPUGuarantee, cli.Optional(procstats.Seconds, run.CPUSeconds))},
			cli.Cell{Text: bounded(run.PeakGuarantee, cli.Optional(procstats.Bytes, run.PeakBytes))},
			cli.Cell{Text: cli.OrDash(string(run.Outcome)), Paint: summary.OutcomePaint(p, run.Outcome)},
			cli.Cell{Text: cli.CommandLine(run.Command)},
		)
	}
	_, err := io.WriteString(out, t.Render(p))
	return err
}

// bounded marks the text of a value that is only a bound.
func bounded(g procstats.Guarantee, text string) string {
	switch g {
	case procstats.LowerBound:
		return "≥ " + text
	case procstats.UpperBound:
		return "≤ " + text
	case procstats.Exact, procstats.Sampled:
	}
	return text
}

// printRunsCSV writes RFC 4180 with the names of the JSON; fields of values that were not measured are empty.
func printRunsCSV(out io.Writer, runs []listedRun) error {
	w := csv.NewWriter(out)
	lines := [][]string{{
		"name", "path", "state", "started_at", "wall_seconds", "exit_code", "signal", "cpu_seconds_total",
		"memory_peak_bytes", "verdict", "command", "message", "cpu_seconds_total_guarantee", "memory_peak_bytes_guarantee",
		"outcome",
	}}
	for _, run := range runs {
		lines = append(lines, []string{
			run.Name, run.Path, string(run.State), run.StartedAt.UTC().Format(time.RFC3339Nano),
			exactly(run.WallSeconds), exactInt(run.ExitCode), exactInt(run.Signal), exactly(run.CPUSeconds),
			exactly(run.PeakBytes), string(run.Verdict), cli.CommandLine(run.Command), run.Message,
			string(run.CPUGuarantee), string(run.PeakGuarantee), string(run.Outcome),
		})
	}
	return w.WriteAll(lines)
}

func exactly(value *float64) string {
	if value == nil {
		return ""
	}
	return cli.FormatExact(*value)
}

func exactInt(value *int) string {
	if value == nil {
		return ""
	}
	return strconv.Itoa(*value)
}
