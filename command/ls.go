// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

type lsOptions struct {
	outputDir *string
	format    *choice
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
		Args:    arguments(),
		GroupID: groupRecords,
	}
	o := &lsOptions{outputDir: outputDirFlag(cmd.Flags()), format: formatFlag(cmd, "table", "json", "csv")}
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
			return usagef("there is no state %q: running, exited or lost", state)
		}
	}
	if o.limit < 0 {
		return usagef("--limit %d: it cannot be negative", o.limit)
	}
	entries, err := listRuns(*o.outputDir)
	if err != nil {
		return err
	}
	entries, unbegun := splitUnbegun(entries)
	if len(unbegun) > 0 {
		complain(cmd.ErrOrStderr(), unbegunText(unbegun))
	}
	var runs []listedRun
	damaged := 0
	for _, entry := range entries {
		if entry.Err != nil {
			complain(cmd.ErrOrStderr(), entry.Err)
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
	if len(entries) == 0 && o.format.value == "table" {
		complain(cmd.ErrOrStderr(), noRuns(*o.outputDir))
	}
	if damaged > 0 {
		return exitWith(exitFault, nil)
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
	Command       []string            `json:"command"`
	Message       string              `json:"message,omitempty"`
	Labels        map[string]string   `json:"labels"`
}

func list(entry record.Entry) listedRun {
	r := entry.Record
	cpu, peak := headline(r, procstats.HeadlineCPU), headline(r, procstats.HeadlineMemoryPeak)
	return listedRun{
		Name: entry.Name, Path: entry.Dir, State: stateOf(r, kernel.HostFS()), StartedAt: r.StartedAt,
		WallSeconds: r.WallSeconds, ExitCode: r.ExitCode, Signal: r.Signal,
		CPUSeconds: cpu.Value, PeakBytes: peak.Value, CPUGuarantee: cpu.Guarantee, PeakGuarantee: peak.Guarantee,
		Verdict: r.Diagnosis.Verdict, Command: r.Command, Message: r.Message, Labels: r.Labels,
	}
}

// headline returns a headline of a record by its number; the zero value where the record has none.
func headline(r *record.Record, id procstats.ID) record.HeadlineValue {
	m, _ := procstats.Lookup(id)
	return r.Headline[m.Name]
}

func (o *lsOptions) print(cmd *cobra.Command, runs []listedRun) error {
	out := cmd.OutOrStdout()
	switch o.format.value {
	case "json":
		if runs == nil {
			runs = []listedRun{} // an empty list, not null
		}
		return printJSON(out, runs)
	case "csv":
		return printRunsCSV(out, runs)
	}
	return printRunsTable(out, paletteFor(cmd, out), runs)
}

func printRunsTable(out io.Writer, p palette, runs []listedRun) error {
	if len(runs) == 0 {
		return nil
	}
	columns, _ := terminalSize(out)
	t := table{
		header: []string{"RUN", "STATE", "STARTED", "WALL", "EXIT", "CPU", "PEAK MEMORY", "VERDICT", "COMMAND"},
		right:  map[int]bool{3: true, 4: true, 5: true, 6: true},
		width:  columns,
	}
	for _, run := range runs {
		t.add(
			cell{text: printable(run.Name)},
			cell{text: string(run.State), paint: p.ofState(run.State)},
			cell{text: run.StartedAt.Local().Format("2006-01-02 15:04:05")},
			cell{text: optional(procstats.Seconds, run.WallSeconds)},
			cell{text: exitText(run.ExitCode, run.Signal)},
			cell{text: bounded(run.CPUGuarantee, optional(procstats.Seconds, run.CPUSeconds))},
			cell{text: bounded(run.PeakGuarantee, optional(procstats.Bytes, run.PeakBytes))},
			cell{text: orDash(string(run.Verdict)), paint: p.ofVerdict(run.Verdict)},
			cell{text: commandLine(run.Command)},
		)
	}
	_, err := io.WriteString(out, t.render(p))
	return err
}

func (p palette) ofState(state record.State) func(string) string {
	switch state {
	case record.Running:
		return p.green
	case record.Lost:
		return p.red
	case record.Exited:
	}
	return nil
}

func (p palette) ofVerdict(verdict record.Verdict) func(string) string {
	switch verdict {
	case "", record.Completed:
		return nil
	case record.Stopped, record.TimedOut:
		return p.yellow
	case record.Failed, record.Signaled, record.StartFailed, record.ExecutorLost:
	}
	return p.red
}

// optional writes a value, or the dash where it was not measured.
func optional(unit procstats.Unit, value *float64) string {
	if value == nil {
		return procstats.NoValue
	}
	return unit.Text(*value)
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

func orDash(text string) string {
	if text == "" {
		return procstats.NoValue
	}
	return text
}

// exitText writes the exit code, or the signal as "sig 9"; the dash where there is neither.
func exitText(code, signal *int) string {
	switch {
	case signal != nil:
		return fmt.Sprintf("sig %d", *signal)
	case code != nil:
		return strconv.Itoa(*code)
	}
	return procstats.NoValue
}

// printRunsCSV writes RFC 4180 with the names of the JSON; fields of values that were not measured are empty.
func printRunsCSV(out io.Writer, runs []listedRun) error {
	w := csv.NewWriter(out)
	lines := [][]string{{
		"name", "path", "state", "started_at", "wall_seconds", "exit_code", "signal", "cpu_seconds_total",
		"memory_peak_bytes", "verdict", "command", "message", "cpu_seconds_total_guarantee", "memory_peak_bytes_guarantee",
	}}
	for _, run := range runs {
		lines = append(lines, []string{
			run.Name, run.Path, string(run.State), run.StartedAt.UTC().Format(time.RFC3339Nano),
			exactly(run.WallSeconds), exactInt(run.ExitCode), exactInt(run.Signal), exactly(run.CPUSeconds),
			exactly(run.PeakBytes), string(run.Verdict), commandLine(run.Command), run.Message,
			string(run.CPUGuarantee), string(run.PeakGuarantee),
		})
	}
	return w.WriteAll(lines)
}

func exactly(value *float64) string {
	if value == nil {
		return ""
	}
	return formatExact(*value)
}

func exactInt(value *int) string {
	if value == nil {
		return ""
	}
	return strconv.Itoa(*value)
}
