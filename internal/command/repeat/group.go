// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package repeat

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Label is the label of the runs of one tacho run --runs: its value is the name of the first of them.
const Label = "series"

// Group is runs of one command, in the order of their starts.
type Group struct {
	// Name is the name of the first run.
	Name string
	Runs []record.Entry
}

// Of returns the series that a run is one of: the runs beside it with the same Label that have completed. A run
// without a label is a series of its own.
func Of(entry record.Entry) (Group, error) {
	alone := Group{Name: entry.Name, Runs: []record.Entry{entry}}
	label := entry.Record.Labels[Label]
	if label == "" {
		return alone, nil
	}
	all, err := record.List(filepath.Dir(entry.Dir))
	if err != nil {
		return alone, err
	}
	all = slices.DeleteFunc(all, func(e record.Entry) bool {
		return e.Err != nil || e.Record.Labels[Label] != label || !e.Record.End().Outcome.Success()
	})
	if len(all) == 0 {
		return alone, nil
	}
	slices.Reverse(all)
	return Group{Name: all[0].Name, Runs: all}, nil
}

// Distinct returns every series once. Those that have the name of another, from another directory, are named by their
// paths.
func Distinct(all []Group) []Group {
	var distinct []Group
	named := make(map[string]int)
	for _, s := range all {
		if !slices.ContainsFunc(distinct, func(other Group) bool { return other.Runs[0].Dir == s.Runs[0].Dir }) {
			distinct = append(distinct, s)
			named[s.Name]++
		}
	}
	for i := range distinct {
		if s := &distinct[i]; named[s.Name] > 1 {
			s.Name = s.Runs[0].Dir
		}
	}
	return distinct
}

// Row is one measurement of one series.
type Row struct {
	Name  string `json:"measurement"`
	Group string `json:"series"`
	// Statistics are null if no run has a value; Reason says why.
	*Statistics
	Reason string `json:"reason,omitempty"`
	// Guarantee is the weakest of all runs.
	Guarantee procstats.Guarantee `json:"guarantee,omitempty"`
	// Outliers are the names of runs that are far from the others.
	Outliers []string `json:"outliers,omitempty"`
	// ChangeRatio is the change of the mean from the first series; null in it, and if its mean is 0.
	ChangeRatio *float64 `json:"change_ratio"`
	// WithinNoise reports that series of runs differ as much by chance; null if that is not known.
	WithinNoise *bool `json:"within_noise"`
}

// wallName is the row of the duration, which is not in the table of measurements.
const wallName = "wall_seconds"

// measurements returns the names of what is compared.
func measurements() []string {
	names := []string{wallName}
	for _, id := range []procstats.ID{
		procstats.HeadlineCPU, procstats.HeadlineMemoryPeak,
		procstats.HeadlineIORead, procstats.HeadlineIOWrite, procstats.HeadlineIOHanded,
	} {
		names = append(names, id.String())
	}
	return names
}

// valueOf returns a value of a run.
func valueOf(r *record.Record, name string) record.HeadlineValue {
	h := r.Headline[name]
	if name == wallName {
		h = record.HeadlineValue{Value: r.WallSeconds, Guarantee: procstats.Exact, Reason: "the run has no end"}
	}
	value, reason := h.Known()
	h.Value, h.Reason = value, cmp.Or(reason, "not recorded")
	if r.Diagnosis.Verdict == record.StartFailed {
		h.Reason = "the command was not started"
	}
	return h
}

// Compare returns the rows of all series by measurement. Those of the first are what the others are compared with.
func Compare(all ...Group) []Row {
	var rows []Row
	for _, name := range measurements() {
		first := len(rows)
		for _, s := range all {
			rows = append(rows, s.row(name))
		}
		base := rows[first]
		for i := first + 1; i < len(rows); i++ {
			rows[i].compareWith(base)
		}
	}
	return rows
}

func (s Group) row(name string) Row {
	row := Row{Name: name, Group: s.Name}
	var values []float64
	var of []string
	for _, run := range s.Runs {
		h := valueOf(run.Record, name)
		if h.Value == nil {
			row.Reason = h.Reason
			continue
		}
		values, of = append(values, *h.Value), append(of, run.Name)
		if row.Guarantee == "" || row.Guarantee == procstats.Exact {
			row.Guarantee = h.Guarantee
		}
	}
	if len(values) == 0 {
		return row
	}
	row.Statistics = new(statisticsOf(values))
	for _, i := range outliers(values) {
		row.Outliers = append(row.Outliers, of[i])
	}
	return row
}

func (r *Row) compareWith(base Row) {
	if r.Statistics == nil || base.Statistics == nil {
		return
	}
	if base.Mean != 0 {
		r.ChangeRatio = new(r.Mean/base.Mean - 1)
	}
	if within, known := withinNoise(base.estimate(), r.estimate()); known {
		r.WithinNoise = &within
	}
}

// WithinNoise reports whether two runs differ in a measurement as much as the runs of their series do by chance;
// known is false if neither is one of several, and for what series do not have.
func WithinNoise(name string, a, b float64, ofA, ofB Group) (within, known bool) {
	if !slices.Contains(measurements(), name) {
		return false, false
	}
	one := func(value float64, s Group) estimate {
		e := estimate{mean: value, n: 1}
		if row := s.row(name); row.Statistics != nil {
			of := row.estimate()
			e.variance, e.freedom = of.variance, of.freedom
		}
		return e
	}
	return withinNoise(one(a, ofA), one(b, ofB))
}
