// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// waited writes the section on pressure and throttling.
func (p *Page) waited() {
	p.Title("What it waited for")
	if stall := p.record.Diagnosis.StallText(); stall != "" {
		p.painted(p.Bold, cli.Printable(stall))
	}
	span, _ := p.record.Span()
	t := PressureTable(p.record.Measurements, span)
	p.Table(t)
	if t.Empty() {
		reason := p.record.Absent[procstats.PSICPUSome.String()]
		p.line("unknown: %s", cli.Printable(cmp.Or(reason, whyUnknown(p.record.State))))
	}
	for _, text := range p.record.Throttling() {
		p.line("%s", text)
	}
}

// PressureTable lists how long processes waited, and their share of a span; 0 if the span is not known.
func PressureTable[V any](values map[string]V, span float64) *cli.Table {
	t := &cli.Table{Indent: "  ", Header: []string{"", "SOME WAITED", "", "ALL WAITED", ""}, Right: []int{1, 2, 3, 4}}
	if span == 0 {
		t.Hidden = []int{2, 4}
	}
	for _, resource := range []struct {
		word       string
		some, full procstats.ID
	}{
		{"cpu", procstats.PSICPUSome, procstats.PSICPUFull},
		{"memory", procstats.PSIMemorySome, procstats.PSIMemoryFull},
		{"io", procstats.PSIIOSome, procstats.PSIIOFull},
	} {
		row := []string{resource.word}
		for _, id := range []procstats.ID{resource.some, resource.full} {
			share := ""
			if value, ok := numberOf(values, id); ok && span > 0 {
				share = procstats.Share.Text(value / span)
			}
			row = append(row, FirstValue(values, id), share)
		}
		if row[1] != procstats.NoValue || row[3] != procstats.NoValue {
			t.AddTexts(row...)
		}
	}
	return t
}

// numberOf returns a number of a record; ok is false if it was not measured.
func numberOf[V any](values map[string]V, id procstats.ID) (value float64, ok bool) {
	found, read := values[id.String()]
	value, ok = any(found).(float64)
	return value, ok && read
}

// why writes how the run ended.
func (p *Page) why() {
	if p.record.State == record.Running {
		p.line("%s", cli.Printable(p.record.StateText()))
		return
	}
	d := p.record.Diagnosis
	for _, line := range EndLines(p.record.End()) {
		p.line("%s", line)
	}
	if d.OOM.Kills == nil && d.OOM.Reason != "" {
		p.line("OOM kills unknown: %s", cli.Printable(d.OOM.Reason))
	}
	if d.Retryable {
		p.line("not caused by the task: a retry, or another machine, may succeed")
	}
}

// EndLines returns the sentences about how a task ended, each for a line.
func EndLines(end record.End) []string {
	var lines []string
	for _, text := range []string{end.Summary, end.OOM, end.LastReading, end.Remedy} {
		if text != "" {
			lines = append(lines, cli.OneLine(text))
		}
	}
	return lines
}

func (p *Page) evidence(evidence map[string]any) {
	if len(evidence) == 0 {
		return
	}
	p.line("evidence:")
	t := cli.Table{Indent: "    "}
	for _, name := range slices.Sorted(maps.Keys(evidence)) {
		t.AddTexts(cli.Printable(name), ValueText(name, evidence[name]))
	}
	p.Table(&t)
}

// largestAtPeak names the processes that had most of the memory at its peak; empty if one had all, or if that is not
// known.
func largestAtPeak(r *record.Record) string {
	const most = 3
	if r.Peak == nil || len(r.Peak.Largest) < 2 {
		return ""
	}
	var words []string
	for i := range r.Peak.Largest[:min(most, len(r.Peak.Largest))] {
		row := &r.Peak.Largest[i]
		words = append(words, fmt.Sprintf("%s[%d] %s", cli.Printable(row.Command), row.PID,
			FirstValue(row.Measurements, procstats.ProcessRSS, procstats.PortableProcessRSS)))
	}
	return strings.Join(words, ", ")
}

// peak writes the section on the memory peak and the processes that used most of it.
func (p *Page) peak() {
	peak := p.record.Peak
	if peak == nil {
		return
	}
	p.Title("Memory peak")
	if peak.Reason != "" && peak.At.IsZero() {
		p.line("unknown: %s", cli.Printable(peak.Reason))
		return
	}
	p.line("%s among the samples, %s after the start (%s)", procstats.Bytes.Text(peak.MemoryBytes),
		procstats.Seconds.Text(peak.At.Sub(p.record.StartedAt).Seconds()), cli.Printable(peak.Measurement))
	t := cli.Table{Indent: "  ", Header: []string{"PID", "RSS", "COMMAND"}, Right: []int{0, 1}}
	for i := range peak.Largest {
		row := &peak.Largest[i]
		t.AddTexts(fmt.Sprint(row.PID), FirstValue(row.Measurements, procstats.ProcessRSS,
			procstats.PortableProcessRSS), rowCommand(row))
	}
	p.Table(&t)
}

// firstNumber returns the first of ids that a process has; nil if it has none.
func firstNumber[V any](measurements map[string]V, ids ...procstats.ID) *float64 {
	for _, id := range ids {
		if value, ok := numberOf(measurements, id); ok {
			return &value
		}
	}
	return nil
}

// FirstValue returns the first of ids that a process has, as text. All have one unit.
func FirstValue[V any](measurements map[string]V, ids ...procstats.ID) string {
	return cli.Optional(procstats.UnitOf(ids[0].String()), firstNumber(measurements, ids...))
}

// OutcomePaint returns the colour of an outcome; nil for none.
func OutcomePaint(p cli.Palette, outcome record.Outcome) func(string) string {
	switch record.Verdict(outcome) {
	case "", record.Completed:
		return nil
	case record.Stopped, record.TimedOut:
		return p.Yellow
	case record.Failed, record.Signaled, record.StartFailed, record.ExecutorLost:
	}
	return p.Red
}
