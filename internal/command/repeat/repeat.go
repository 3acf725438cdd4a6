// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package repeat is about repeated runs of a command: what they used on average, how much that varies, and whether a
// difference between two series is more than that.
package repeat

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Statistics describe the values of repeated runs.
type Statistics struct {
	// N counts the runs with a value.
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	// StdDev is the standard deviation of the sample, with N-1; null for one value.
	StdDev *float64 `json:"stddev"`
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
}

// statisticsOf returns the statistics of at least one value.
func statisticsOf(values []float64) Statistics {
	s := Statistics{N: len(values), Min: slices.Min(values), Max: slices.Max(values)}
	for _, v := range values {
		s.Mean += v / float64(s.N)
	}
	if s.N > 1 {
		squares := 0.0
		for _, v := range values {
			squares += (v - s.Mean) * (v - s.Mean)
		}
		s.StdDev = new(math.Sqrt(squares / float64(s.N-1)))
	}
	return s
}

// fewest is the number of values from which on one can be an outlier.
const fewest = 5

// outliers returns the indexes of values that are far from the median: their modified Z-score by Iglewicz and Hoaglin
// is above 3.5, and they differ from the median by more than 1 %.
func outliers(values []float64) (found []int) {
	if len(values) < fewest {
		return nil
	}
	middle := median(values)
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - middle)
	}
	unit := median(away) / 0.6745
	if unit == 0 { // more than half of the values are equal
		for _, a := range away {
			unit += 1.253314 * a / float64(len(away))
		}
	}
	for i, a := range away {
		if a > 3.5*unit && a > math.Abs(middle)/100 {
			found = append(found, i)
		}
	}
	return found
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// estimate is a mean and how sure it is.
type estimate struct {
	mean float64
	// variance is the variance of one value, n the number of values, and freedom the degrees of freedom of the
	// variance; 0 if it is not known.
	variance   float64
	n, freedom float64
}

func (s Statistics) estimate() estimate {
	if s.StdDev == nil {
		return estimate{mean: s.Mean, n: 1}
	}
	return estimate{mean: s.Mean, variance: *s.StdDev * *s.StdDev, n: float64(s.N), freedom: float64(s.N - 1)}
}

// withinNoise reports whether two means differ by no more than such series do by chance, 19 times of 20 (Welch's
// test). A side of unknown variance is taken to vary as the other one; known is false if neither is known.
func withinNoise(a, b estimate) (within, known bool) {
	if a.freedom == 0 {
		a, b = b, a
	}
	if a.freedom == 0 {
		return false, false
	}
	ofA, ofB, freedom := a.variance/a.n, b.variance/b.n, a.freedom
	if b.freedom == 0 {
		ofB = a.variance / b.n
	} else if sum := ofA + ofB; sum > 0 {
		freedom = sum * sum / (ofA*ofA/a.freedom + ofB*ofB/b.freedom)
	}
	return math.Abs(a.mean-b.mean) <= studentT(freedom)*math.Sqrt(ofA+ofB), true
}

// studentT returns the value that Student's t exceeds in size once in 20 times. Between whole degrees of freedom it
// takes the lower one.
func studentT(freedom float64) float64 {
	quantiles := [...]float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
		2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	}
	n := int(max(1, freedom))
	if n <= len(quantiles) {
		return quantiles[n-1]
	}
	return 1.96 + 2.4/freedom
}

// Label is the label of all runs of one tacho run --runs: its value is the name of the first of them.
const Label = "series"

// NameLabel is the label of the runs of one of its commands.
const NameLabel = "name"

// Group is runs of one command, in the order of their starts.
type Group struct {
	// Name is the label NameLabel, or else the name of the first run.
	Name string
	Runs []record.Entry
}

// Middle returns the run with the median duration.
func (s Group) Middle() record.Entry {
	seconds := func(e record.Entry) float64 { return *cmp.Or(e.Record.WallSeconds, new(float64)) }
	byTime := func(a, b record.Entry) int { return cmp.Compare(seconds(a), seconds(b)) }
	return slices.SortedStableFunc(slices.Values(s.Runs), byTime)[(len(s.Runs)-1)/2]
}

// Single returns a run that is not repeated.
func Single(r *record.Record) []Group {
	return []Group{{Name: r.ID, Runs: []record.Entry{{Name: r.ID, Record: r}}}}
}

// All returns the series, one for each command, of the call that a run is one of: the runs beside it with the same
// Label that have completed, by NameLabel. A run without a label is a series of its own.
func All(entry record.Entry) ([]Group, error) {
	name := cmp.Or(entry.Record.Labels[NameLabel], entry.Name)
	alone := []Group{{Name: name, Runs: []record.Entry{entry}}}
	label := entry.Record.Labels[Label]
	if label == "" {
		return alone, nil
	}
	all, err := record.ListBriefly(filepath.Dir(entry.Dir))
	if err != nil {
		return alone, err
	}
	all = slices.DeleteFunc(all, func(e record.Entry) bool {
		return e.Err != nil || e.Record.Labels[Label] != label || !e.Record.End().Outcome.Success()
	})
	var groups []Group
	for _, e := range slices.Backward(record.Whole(all)) {
		if e.Err != nil {
			continue
		}
		at := slices.IndexFunc(groups, func(g Group) bool {
			return g.Runs[0].Record.Labels[NameLabel] == e.Record.Labels[NameLabel]
		})
		if at < 0 {
			at, groups = len(groups), append(groups, Group{Name: cmp.Or(e.Record.Labels[NameLabel], e.Name)})
		}
		groups[at].Runs = append(groups[at].Runs, e)
	}
	if len(groups) == 0 {
		return alone, nil
	}
	return groups, nil
}

// Of returns the series that a run is one of.
func Of(entry record.Entry) (Group, error) {
	groups, err := All(entry)
	for _, g := range groups {
		if g.Runs[0].Record.Labels[NameLabel] == entry.Record.Labels[NameLabel] {
			return g, err
		}
	}
	return Group{Name: entry.Name, Runs: []record.Entry{entry}}, err // its command never completed
}

// Distinct returns every series once. Those that have the name of another are named by their paths, too.
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
			s.Name += " (" + s.Runs[0].Dir + ")"
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
	// Values are those of the runs that have one, in the order of their starts.
	Values []float64 `json:"values,omitempty"`
	// Outliers are the names of runs that are far from the others.
	Outliers []string `json:"outliers,omitempty"`
	// ChangeRatio is the change of the mean from the first series; null in it, and if its mean is 0.
	ChangeRatio *float64 `json:"change_ratio"`
	// WithinNoise reports that series of runs differ as much by chance; null if that is not known.
	WithinNoise *bool `json:"within_noise"`
	// Verdict says, in the row of the duration, how the series compares with the fastest one; empty in that.
	Verdict string `json:"verdict,omitempty"`
}

// measurements returns the names of what is compared.
func measurements() []string {
	return []string{
		record.WallName, procstats.HeadlineCPU.String(), procstats.HeadlineMemoryPeak.String(),
		procstats.HeadlineIORead.String(), procstats.HeadlineIOWrite.String(), procstats.HeadlineIOHanded.String(),
	}
}

// valueOf returns a value of a run.
func valueOf(r *record.Record, name string) record.HeadlineValue {
	h := r.Number(name)
	h.Value, h.Reason = h.Known()
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
	judge(rows, len(all))
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
	row.Values, row.Statistics = values, new(statisticsOf(values))
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

// Trend says what a run has taken more or less of than those before it, on the same machine, differ among themselves;
// empty if that is nothing, or unless a few of them and the run have completed.
func Trend(of *record.Record, history []*record.Record) string {
	const few, little = 3, 0.05
	before := Group{}
	for _, r := range history {
		if r.StartedAt.Before(of.StartedAt) && r.Host.Name == of.Host.Name && r.End().Outcome.Success() {
			before.Runs = append(before.Runs, record.Entry{Record: r})
		}
	}
	if len(before.Runs) < few || !of.End().Outcome.Success() {
		return ""
	}
	var words []string
	for _, m := range []struct{ name, more, less string }{
		{record.WallName, "slower", "faster"},
		{procstats.HeadlineCPU.String(), "more CPU time", "less CPU time"},
		{procstats.HeadlineMemoryPeak.String(), "more memory", "less memory"},
	} {
		value, row := valueOf(of, m.name).Value, before.row(m.name)
		if value == nil || row.Statistics == nil || row.N < few || math.Abs(*value-row.Mean) < little*row.Mean {
			continue
		}
		if within, _ := withinNoise(estimate{mean: *value, n: 1}, row.estimate()); within {
			continue
		}
		word := m.more
		if *value < row.Mean {
			word = m.less
		}
		unit := procstats.UnitOf(m.name)
		words = append(words, fmt.Sprintf("%s (%s, they %s ± %s)", word, unit.Text(*value), unit.Text(row.Mean),
			unit.Text(*row.StdDev)))
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf("with the %d runs before: %s", len(before.Runs), strings.Join(words, ", "))
}

// judge fills in the verdicts of rows, of which the first are the durations of so many series. Single runs have none.
func judge(rows []Row, series int) {
	times := rows[:series]
	peaks := rows[slices.IndexFunc(rows, func(r Row) bool { return r.Name == procstats.HeadlineMemoryPeak.String() }):]
	fastest := 0
	for i := range times {
		if s := times[i].Statistics; s != nil && (times[fastest].Statistics == nil || s.Mean < times[fastest].Mean) {
			fastest = i
		}
	}
	for i := range times {
		a, b := &times[fastest], &times[i]
		if i == fastest || b.Statistics == nil || a.StdDev == nil || b.StdDev == nil || a.Mean == 0 {
			continue
		}
		text := " is not measurably faster than " + b.Group + " (within noise)"
		if within, _ := withinNoise(a.estimate(), b.estimate()); !within { // both vary independently
			ratio := b.Mean / a.Mean
			deviation := ratio * math.Hypot(*a.StdDev/a.Mean, *b.StdDev/b.Mean)
			digits := int(min(4, max(0, -math.Floor(math.Log10(max(deviation, 0.01))))))
			text = fmt.Sprintf(" is %.*f ± %.*f times as fast as %s", digits, ratio, digits, deviation, b.Group)
		}
		b.Verdict = a.Group + text + memoryOf(&peaks[fastest], &peaks[i])
	}
}

// memoryOf says by how much the peak of a differs from that of b; nothing within noise, and of bounds, which may hide
// that.
func memoryOf(a, b *Row) string {
	if a.Statistics == nil || b.Statistics == nil || a.Guarantee != procstats.Exact || b.Guarantee != procstats.Exact {
		return ""
	}
	word := map[bool]string{true: "less", false: "more"}[a.Mean < b.Mean]
	if within, known := withinNoise(a.estimate(), b.estimate()); within || !known {
		return ""
	}
	return ", and uses " + procstats.Bytes.Text(math.Abs(a.Mean-b.Mean)) + " " + word + " memory at its peak"
}
