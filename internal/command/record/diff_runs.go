// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/procstats"
)

// runDiff is two runs side by side, and the JSON of diff --format json.
type runDiff struct {
	A listedRun `json:"a"`
	B listedRun `json:"b"`
	// Warnings list what makes the runs hard to compare.
	Warnings     []string  `json:"warnings"`
	Headline     []diffRow `json:"headline"`
	Measurements []diffRow `json:"measurements"`
	// Budgets are those of --max-increase.
	Budgets []budget.Result `json:"budgets,omitempty"`
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
	// WithinNoise reports that runs of these series differ as much by chance; null if neither run is one of several.
	WithinNoise *bool  `json:"within_noise,omitempty"`
	AbsentA     string `json:"absent_a,omitempty"`
	AbsentB     string `json:"absent_b,omitempty"`
}

func diffRuns(a, b record.Entry) *runDiff {
	d := &runDiff{A: list(a), B: list(b), Warnings: unlike(a.Record, b.Record), Headline: []diffRow{}, Measurements: []diffRow{}}
	d.Headline = append(d.Headline, changeOf(diffRow{Name: "wall_seconds", A: a.Record.WallSeconds, B: b.Record.WallSeconds}))
	given := map[string]record.HeadlineValue{}
	for _, r := range []*record.Record{a.Record, b.Record} {
		maps.Copy(given, r.Headline)
	}
	for _, name := range cli.TableOrder(given) {
		row := diffRow{Name: name}
		row.A, row.AbsentA = headlineOf(a.Record, name)
		row.B, row.AbsentB = headlineOf(b.Record, name)
		d.Headline = append(d.Headline, changeOf(row))
	}
	names := map[string]any{}
	for _, r := range []*record.Record{a.Record, b.Record} {
		maps.Copy(names, r.Measurements)
	}
	for _, name := range cli.TableOrder(names) {
		d.Measurements = append(d.Measurements, diffMeasurement(name, a.Record, b.Record))
	}
	return d
}

// addNoise says of each headline whether its change is within the noise of repeated runs.
func (d *runDiff) addNoise(a, b repeat.Group) {
	for i := range d.Headline {
		row := &d.Headline[i]
		if row.A == nil || row.B == nil {
			continue
		}
		if within, known := repeat.WithinNoise(row.Name, *row.A, *row.B, a, b); known {
			row.WithinNoise = &within
		}
	}
}

// headlineOf returns the value of a headline, or the reason for its absence.
func headlineOf(r *record.Record, name string) (value *float64, absent string) {
	h := r.Headline[name]
	value, absent = h.Known()
	if value == nil {
		absent = cmp.Or(absent, notRecorded)
	}
	return value, absent
}

const notRecorded = "not recorded"

func diffMeasurement(name string, a, b *record.Record) diffRow {
	row := diffRow{Name: name}
	row.A, row.TextA, row.AbsentA = recorded(a, name)
	row.B, row.TextB, row.AbsentB = recorded(b, name)
	return changeOf(row)
}

// recorded returns the value of a name, a number or a text, or the reason for its absence.
func recorded(r *record.Record, name string) (number *float64, text, absent string) {
	switch value := r.Measurements[name].(type) {
	case float64:
		return &value, "", ""
	case string:
		return nil, value, ""
	}
	return nil, "", cmp.Or(r.Absent[name], notRecorded)
}

func changeOf(row diffRow) diffRow {
	if row.A == nil || row.B == nil {
		return row
	}
	change := *row.B - *row.A
	row.Change = &change
	if *row.A != 0 {
		ratio := change / *row.A
		row.ChangeRatio = &ratio
	}
	return row
}

// unlike lists the differences that make two runs hard to compare.
func unlike(a, b *record.Record) []string {
	warnings := []string{}
	differ := func(what, inA, inB string) {
		if inA != inB {
			warnings = append(warnings, fmt.Sprintf("different %s: %s and %s", what, cmp.Or(inA, "none"), cmp.Or(inB, "none")))
		}
	}
	for _, side := range []struct {
		name   string
		record *record.Record
	}{{"A", a}, {"B", b}} {
		if side.record.State != record.Exited {
			warnings = append(warnings, fmt.Sprintf("%s is %s: its record is incomplete", side.name, side.record.State))
		}
	}
	differ("commands", cli.CommandLine(a.Command), cli.CommandLine(b.Command))
	differ("hosts", a.Host.Name, b.Host.Name)
	differ("systems", a.Host.OS, b.Host.OS)
	differ("kernels", a.Host.Kernel, b.Host.Kernel)
	differ("numbers of CPUs", fmt.Sprint(a.Host.CPUs), fmt.Sprint(b.Host.CPUs))
	differ("memory sizes", procstats.Bytes.Text(float64(a.Host.MemoryBytes)), procstats.Bytes.Text(float64(b.Host.MemoryBytes)))
	differ("cgroup layouts", layoutOf(a), layoutOf(b))
	differ("sampling intervals", intervalsOf(a), intervalsOf(b))
	if selections := differentSelections(a, b); selections != "" {
		warnings = append(warnings, selections)
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

func differentSelections(a, b *record.Record) string {
	onlyA, onlyB := without(a.Selection, b.Selection), without(b.Selection, a.Selection)
	if len(onlyA) == 0 && len(onlyB) == 0 {
		return ""
	}
	text := "different selections"
	if len(onlyA) > 0 {
		text += "; only in A: " + cli.SomeOf(onlyA)
	}
	if len(onlyB) > 0 {
		text += "; only in B: " + cli.SomeOf(onlyB)
	}
	return text
}

func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
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
	if value.Guarantee == "" || value.Guarantee == procstats.Exact {
		return cmp.Or(value.Source, "no source")
	}
	return fmt.Sprintf("%s (%s)", cmp.Or(value.Source, "no source"), cli.GuaranteeText(value.Guarantee))
}
