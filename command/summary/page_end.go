// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// waited is the section on pressure and throttling: what the run stood still for.
func (p *Page) waited() {
	p.section("What it waited for")
	if stall := p.record.Diagnosis.Stall; stall != "" {
		fmt.Fprintf(&p.text, "  %s\n", p.palette.Bold(string(stall)))
	}
	t := cli.Table{Indent: "  ", Header: []string{"", "SOMEBODY WAITED", "", "ALL WAITED", ""}, Right: map[int]bool{1: true, 2: true, 3: true, 4: true}}
	for _, resource := range []struct {
		word       string
		some, full procstats.ID
	}{
		{"cpu", procstats.PSICPUSome, procstats.PSICPUFull},
		{"memory", procstats.PSIMemorySome, procstats.PSIMemoryFull},
		{"io", procstats.PSIIOSome, procstats.PSIIOFull},
	} {
		some, someShare := p.stall(resource.some)
		full, fullShare := p.stall(resource.full)
		if some != procstats.NoValue || full != procstats.NoValue {
			t.AddTexts(resource.word, some, someShare, full, fullShare)
		}
	}
	if !t.Empty() {
		p.text.WriteString(t.Render(p.palette))
	} else {
		fmt.Fprintf(&p.text, "  not known: %s\n", cli.Printable(p.whyAbsent(procstats.PSICPUSome)))
	}
	if throttled, ok := p.number(procstats.CgroupCPUThrottled); ok && throttled > 0 {
		fmt.Fprintf(&p.text, "  its CPU quota held it back for %s of CPU time\n", procstats.Seconds.Text(throttled))
	}
}

// stall returns a stall total and its share of the run.
func (p *Page) stall(id procstats.ID) (total, share string) {
	value, ok := p.number(id)
	if !ok {
		return procstats.NoValue, ""
	}
	span, ok := p.record.Span()
	if !ok {
		return procstats.Seconds.Text(value), ""
	}
	return procstats.Seconds.Text(value), procstats.Share.Text(value / span)
}

// number returns a final value of the record; ok is false where it was not measured.
func (p *Page) number(id procstats.ID) (value float64, ok bool) {
	return numberOf(p.record.Measurements, id)
}

func numberOf(values map[string]any, id procstats.ID) (value float64, ok bool) {
	m, _ := procstats.Lookup(id)
	value, ok = values[m.Name].(float64)
	return value, ok
}

func (p *Page) whyAbsent(id procstats.ID) string {
	m, _ := procstats.Lookup(id)
	if reason := p.record.Absent[m.Name]; reason != "" {
		return reason
	}
	switch p.record.State {
	case record.Running:
		return "the record is written at the end"
	case record.Lost:
		return "the record was not written to its end"
	case record.Exited:
	}
	return "it was not selected"
}

// ended is the section on how the run ended and what the evidence is.
func (p *Page) ended() {
	p.section("Why it ended")
	if p.record.State == record.Running {
		p.text.WriteString("  it is running\n")
		return
	}
	d, end := p.record.Diagnosis, p.record.End()
	if end.Outcome != "" {
		outcome := cli.Cell{Text: string(end.Outcome), Paint: OutcomePaint(p.palette, end.Outcome)}
		fmt.Fprintf(&p.text, "  %s\n", outcome.String())
	}
	for _, line := range EndLines(end) {
		fmt.Fprintf(&p.text, "  %s\n", line)
	}
	if d.OOM.Kills == nil && d.OOM.Reason != "" {
		fmt.Fprintf(&p.text, "  OOM kills are not known: %s\n", cli.Printable(d.OOM.Reason))
	}
	if d.Retryable {
		p.text.WriteString("  the task is not at fault: another machine, or another time, could end better\n")
	}
	p.evidence(d.Evidence)
}

// EndLines are the sentences about how a task ended, each on a line.
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
	p.text.WriteString("  evidence:\n")
	t := cli.Table{Indent: "    "}
	for _, name := range slices.Sorted(maps.Keys(evidence)) {
		t.AddTexts(cli.Printable(name), ValueText(name, evidence[name]))
	}
	p.text.WriteString(t.Render(p.palette))
}

// peak is the section on when memory was highest and who held it.
func (p *Page) peak() {
	peak := p.record.Peak
	if peak == nil {
		return
	}
	p.section("Memory at its highest")
	if peak.Reason != "" && peak.At.IsZero() {
		fmt.Fprintf(&p.text, "  not known: %s\n", cli.Printable(peak.Reason))
		return
	}
	fmt.Fprintf(&p.text, "  %s among the samples, %s after the start (%s)\n", procstats.Bytes.Text(peak.MemoryBytes),
		procstats.Seconds.Text(peak.At.Sub(p.record.StartedAt).Seconds()), cli.Printable(peak.Measurement))
	t := cli.Table{Indent: "  ", Header: []string{"PID", "RSS", "COMMAND"}, Right: map[int]bool{0: true, 1: true}}
	for i := range peak.Largest {
		row := &peak.Largest[i]
		t.AddTexts(fmt.Sprint(row.PID), rowValue(row, procstats.ProcessRSS, procstats.PortableProcessRSS), cli.Printable(row.Command))
	}
	if !t.Empty() {
		p.text.WriteString(t.Render(p.palette))
	}
}

// rowValue writes the first of some measurements that a process row has.
func rowValue(row *record.ProcessRow, ids ...procstats.ID) string {
	for _, id := range ids {
		if value, ok := numberOf(row.Measurements, id); ok {
			m, _ := procstats.Lookup(id)
			return m.Unit.Text(value)
		}
	}
	return procstats.NoValue
}

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
