// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func newDiff() *cobra.Command {
	cmd := cli.Described(help, "diff")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return cli.Arguments("A", "B")(cmd, args)
	}
	format := cli.AddFormat(cmd, "table", "json")
	all := cmd.Flags().Bool("all", false, "compare all measurements")
	mostOf := cmd.Flags().StringArray("max-increase", nil,
		"exit with 123 if B used more than A by more than this, `MEASUREMENT=VALUE`: memory_peak=10%, wall=2s; "+
			"may be repeated")
	rundir.ForRuns(cmd, 2, []string{"last~1", "last"}, func(cmd *cobra.Command, runs []record.Entry) error {
		d, err := newRunDiff(runs[0], runs[1], *mostOf)
		if err != nil {
			return err
		}
		d.all = *all
		if err := cli.Print(cmd, format, d, d.render); err != nil {
			return err
		}
		return budget.Report(d.Budgets, func(err error) { cli.PrintError(cmd.ErrOrStderr(), err) })
	})
	return cmd
}

// mostRuns is how many runs a command completes.
const mostRuns = 1000

// compared returns the series that runs stand for: a single one for those of all commands of its call.
func compared(runs ...record.Entry) (groups []repeat.Group, err error) {
	if len(runs) == 1 {
		return repeat.All(runs[0])
	}
	for _, run := range runs {
		g, err := repeat.Of(run)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return repeat.Distinct(groups), nil
}

// render returns both runs as text.
func (d *runDiff) render(p cli.Palette) string {
	var text string
	for _, warning := range d.Warnings {
		text += cli.Hang(p, p.Yellow("note: "), "      ", cli.Printable(warning), p.Yellow)
	}
	if text != "" {
		text += "\n"
	}
	text += "A  " + cli.Printable(d.A.ID) + "\nB  " + cli.Printable(d.B.ID) + "\n\n"
	t := cli.Table{
		Header: []string{"", "A", "B", "CHANGE", "", ""}, Right: []int{1, 2, 3, 4},
		Leave: []int{4, cli.Shorten}, Least: map[int]int{0: 16},
	}
	t.AddTexts("state", d.A.stateText(), d.B.stateText())
	t.AddTexts("outcome", cli.OrDash(string(d.A.Outcome)), cli.OrDash(string(d.B.Outcome)))
	t.AddTexts("exit code", summary.ExitText(d.A.ExitCode, d.A.Signal), summary.ExitText(d.B.ExitCode, d.B.Signal))
	for n, rows := range [][]diffRow{d.Headline, d.Measurements} {
		if len(rows) == 0 || n > 0 && !d.all {
			continue
		}
		t.Add()
		for i := range rows {
			if d.shows(&rows[i]) {
				t.Add(rows[i].cells(p)...)
			}
		}
	}
	return text + t.Render(p)
}

// shows reports whether a row says something: not what is absent, of which the JSON says why, nor what neither run did,
// nor the CPUs of the last sample, beside which the average is.
func (d *runDiff) shows(row *diffRow) bool {
	if row.AbsentA != "" && row.AbsentB != "" {
		return false
	}
	neither := row.A != nil && row.B != nil && *row.A == 0 && *row.B == 0
	return d.all || !neither && row.Name != procstats.HeadlineCores.String()
}

func (row *diffRow) cells(p cli.Palette) []any {
	unit := procstats.UnitOf(row.Name)
	a, b := row.side(unit, row.A, row.TextA), row.side(unit, row.B, row.TextB)
	change, relative := "", ""
	if row.Change != nil {
		change = unit.Difference().Signed(*row.Change)
	}
	if row.ChangeRatio != nil {
		relative = procstats.Share.Signed(*row.ChangeRatio)
	}
	return []any{
		cli.Plain(row.Name), cli.Plain(a), cli.Plain(b), cli.Painted(change, p.Bold), cli.Plain(relative),
		cli.Painted(cli.Printable(row.why()), p.Faint),
	}
}

func (row *diffRow) side(unit procstats.Unit, value *float64, text string) string {
	if text != "" {
		return cli.Printable(text)
	}
	return cli.Optional(unit, value)
}

// why returns the reason for an absent side, or a remark on the change.
func (row *diffRow) why() string {
	absent := cmp.Or(row.AbsentA, row.AbsentB)
	switch {
	case row.WithinNoise != nil && *row.WithinNoise && *row.Change != 0:
		return "within the noise of repeated runs"
	case absent == "" || absent == record.NotRecorded:
		return ""
	case row.AbsentA != "":
		return "A: " + absent
	}
	return "B: " + absent
}

// runDiff is two runs side by side, and the JSON of diff --format json.
type runDiff struct {
	A listedRun `json:"a"`
	B listedRun `json:"b"`
	// Warnings list what makes the runs hard to compare.
	Warnings     []string  `json:"warnings"`
	Headline     []diffRow `json:"headline"`
	Measurements []diffRow `json:"measurements"`
	// Budgets are the results of --max-increase.
	Budgets []budget.Result `json:"budgets,omitempty"`

	// all says that the text has the measurements too.
	all bool
}

// diffRow is one number of both runs, in the unit of its name. Null is not measured; AbsentA and AbsentB say why.
type diffRow struct {
	Name string   `json:"name"`
	A    *float64 `json:"a"`
	B    *float64 `json:"b"`
	// TextA and TextB are the values of labels.
	TextA string `json:"text_a,omitempty"`
	TextB string `json:"text_b,omitempty"`
	// Change is B - A, ChangeRatio is Change / A; null if a side is absent, or if A is 0.
	Change      *float64 `json:"change"`
	ChangeRatio *float64 `json:"change_ratio"`
	// WithinNoise reports that the series of the runs differ as much by chance; null if neither run is one of several.
	WithinNoise *bool  `json:"within_noise,omitempty"`
	AbsentA     string `json:"absent_a,omitempty"`
	AbsentB     string `json:"absent_b,omitempty"`
}

// newRunDiff compares two runs.
func newRunDiff(a, b record.Entry, increases []string) (*runDiff, error) {
	for _, entry := range []record.Entry{a, b} {
		rundir.UpdateState(entry.Record, kernel.HostFS())
	}
	groups, err := compared(a, b)
	if err != nil {
		return nil, err
	}
	d := &runDiff{
		A: list(a), B: list(b), Warnings: unlike(a.Record, b.Record), Headline: []diffRow{}, Measurements: []diffRow{},
	}
	series := repeat.Compare(groups[0], groups[len(groups)-1]) // a series beside itself, if both runs are of one
	add := func(rows *[]diffRow, names []string) {
		for _, name := range names {
			row := diffRow{Name: name}
			row.A, row.TextA, row.AbsentA = valueOf(a.Record, name)
			row.B, row.TextB, row.AbsentB = valueOf(b.Record, name)
			row.compare(series)
			*rows = append(*rows, row)
		}
	}
	add(&d.Headline, append([]string{record.WallName}, namesOf(a.Record.Headline, b.Record.Headline)...))
	add(&d.Measurements, namesOf(a.Record.Measurements, b.Record.Measurements))
	for _, text := range increases {
		most, err := budget.ParseIncrease(text)
		if err != nil {
			return nil, cli.Usagef("--max-increase %s: %w", text, err)
		}
		d.Budgets = append(d.Budgets, most.Check(a.Record, b.Record))
	}
	return d, nil
}

// compare fills in the change, and whether it is within the noise of the two series that the runs are of.
func (row *diffRow) compare(series []repeat.Row) {
	if row.A == nil || row.B == nil {
		return
	}
	row.Change = new(*row.B - *row.A)
	if *row.A != 0 {
		row.ChangeRatio = new(*row.Change / *row.A)
	}
	if i := slices.IndexFunc(series, func(r repeat.Row) bool { return r.Name == row.Name }); i >= 0 {
		row.WithinNoise = series[i+1].WithinNoise
	}
}

// namesOf returns the names that one of two runs has values of.
func namesOf[V any](a, b map[string]V) []string {
	both := map[string]V{}
	maps.Copy(both, a)
	maps.Copy(both, b)
	return cli.TableOrder(both)
}

// valueOf returns the headline or measurement of a name, a number or a text, or the reason for its absence.
func valueOf(r *record.Record, name string) (number *float64, text, absent string) {
	if text, ok := r.Measurements[name].(string); ok {
		return nil, text, ""
	}
	h := r.Number(name)
	number, absent = h.Known()
	return number, "", absent
}

// unlike lists the differences that make two runs hard to compare.
func unlike(a, b *record.Record) []string {
	warnings := []string{}
	differ := func(what, inA, inB string) {
		if inA != inB {
			warnings = append(warnings, fmt.Sprintf("different %s: %s and %s", what, cmp.Or(inA, "none"), cmp.Or(inB, "none")))
		}
	}
	for i, r := range []*record.Record{a, b} {
		if r.State != record.Exited {
			warnings = append(warnings, fmt.Sprintf("%c is %s: its record is incomplete", 'A'+i, r.State))
		}
	}
	differ("commands", cli.CommandLine(a.Command), cli.CommandLine(b.Command))
	differ("hosts", a.Host.Name, b.Host.Name)
	differ("systems", a.Host.OS, b.Host.OS)
	differ("kernels", a.Host.Kernel, b.Host.Kernel)
	differ("numbers of CPUs", fmt.Sprint(a.Host.CPUs), fmt.Sprint(b.Host.CPUs))
	memory := func(r *record.Record) string { return procstats.Bytes.Text(float64(r.Host.MemoryBytes)) }
	differ("memory sizes", memory(a), memory(b))
	differ("cgroup layouts", layoutOf(a), layoutOf(b))
	differ("sampling intervals", intervalsOf(a), intervalsOf(b))
	onlyA, onlyB := without(a.Selection, b.Selection), without(b.Selection, a.Selection)
	if onlyA+onlyB != "" {
		text := "different selections"
		if onlyA != "" {
			text += "; only in A: " + onlyA
		}
		if onlyB != "" {
			text += "; only in B: " + onlyB
		}
		warnings = append(warnings, text)
	}
	return append(warnings, differentSources(a, b)...)
}

// intervalsOf returns the intervals that were requested.
func intervalsOf(r *record.Record) string {
	text := procstats.Seconds.Text(r.Interval)
	if r.FirstInterval > 0 {
		text = procstats.Seconds.Text(r.FirstInterval) + ", then " + text
	}
	return text
}

func layoutOf(r *record.Record) string {
	if r.Cgroup == nil {
		return ""
	}
	return r.Cgroup.Layout
}

// without lists the names that are not among others.
func without(names, others []string) string {
	known := func(name string) bool { return slices.Contains(others, name) }
	return cli.SomeOf(slices.DeleteFunc(slices.Clone(names), known))
}

// differentSources lists the headlines whose values have different sources or guarantees.
func differentSources(a, b *record.Record) []string {
	var warnings []string
	for _, name := range cli.TableOrder(a.Headline) {
		inA, inB := a.Headline[name], b.Headline[name]
		if inA.Value == nil || inB.Value == nil || inA.Source == inB.Source && inA.Guarantee == inB.Guarantee {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s: A has %s, B has %s", name, provenance(inA), provenance(inB)))
	}
	return warnings
}

func provenance(value record.HeadlineValue) string {
	source := cmp.Or(value.Source, "no source")
	if value.Guarantee == "" || value.Guarantee == procstats.Exact {
		return source
	}
	return fmt.Sprintf("%s (%s)", source, cli.GuaranteeText(value.Guarantee))
}

func newCompare() *cobra.Command {
	cmd := cli.Described(help, "compare")
	format := cli.AddFormat(cmd, repeat.Formats()...)
	rundir.ForRuns(cmd, mostRuns, rundir.Last(), func(cmd *cobra.Command, runs []record.Entry) error {
		groups, err := compared(runs...)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		return repeat.Write(out, cli.PaletteFor(cmd, out), format.String(), repeat.Compare(groups...))
	})
	return cmd
}
