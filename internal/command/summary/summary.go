// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package summary lays out the record of a run as text: the short summary that tacho run ends with, and the page of
// tacho show, with their parts.
package summary

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// Write writes how a run ended and what it used: the page with full, otherwise a summary. name is empty if there is no
// record to show.
func Write(cmd *cobra.Command, out io.Writer, full bool, name string, r *record.Record) error {
	p := cli.PaletteFor(cmd, out)
	if full {
		_, err := io.WriteString(out, NewPage(p, name, r).Render(false))
		return err
	}
	text := cli.Hang(p, p.Bold("tacho:")+" ", "       ", cli.OneLine(r.End().Summary), nil)
	t := cli.Table{Indent: "  "}
	for _, line := range Lines(r) {
		t.AddTexts(line[0], line[1])
	}
	text += t.Render(p)
	if name != "" {
		text += p.Faint("  tacho show "+name) + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// Lines returns what a run used, and what it was at and what can be done before its end, as names and texts, as far as
// it is known.
func Lines(r *record.Record) [][2]string {
	end := r.End()
	return known(append(usedLines(r, ""),
		[2]string{"last reading", end.LastReading}, [2]string{"remedy", cli.OneLine(end.Remedy)})...)
}

// known returns those of lines that have a text.
func known(lines ...[2]string) [][2]string {
	return slices.DeleteFunc(lines, func(line [2]string) bool { return line[1] == "" })
}

// usedLines says with storage what became of what was written.
func usedLines(r *record.Record, storage string) [][2]string {
	return known([][2]string{
		{"wall", wallText(r)},
		{"cpu", cpuSummary(r)},
		{"by", Commands(r)},
		{"memory", memorySummary(r)},
		{"i/o", record.Join(", ", named("read ", headlineText(r, procstats.HeadlineIORead)), writtenOf(r).Short())},
		{"storage", storage},
		{"network", networkSummary(r)},
		{"waited", waitedSummary(r)},
		{"note", record.Join("; ", contradictionSummary(r), r.GapText())},
		{"limits", limitsSummary(r)},
	}...)
}

// contradictionSummary says why numbers of the kernel's account are lower bounds only.
func contradictionSummary(r *record.Record) string {
	return named("lower bounds: ", strings.Join(record.Causes(r.Headline), "; "))
}

// named puts a name before a text; empty without a text.
func named(name, text string) string {
	if text == "" {
		return ""
	}
	return name + text
}

// headlineText returns a headline, and of a bound that it is one; empty if it was not measured. The network's are all
// lower bounds, by the packets that were merged: that makes no difference unless something contradicts them.
func headlineText(r *record.Record, id procstats.ID) string {
	h := r.Headline[id.String()]
	value, _ := h.Known()
	if value == nil {
		return ""
	}
	text := procstats.UnitOf(id.String()).Text(*value)
	packets := id == procstats.HeadlineNetworkReceived || id == procstats.HeadlineNetworkSent
	if h.Guarantee == procstats.UpperBound || h.Guarantee == procstats.LowerBound && !(packets && len(h.Notes) == 0) {
		return cli.GuaranteeText(h.Guarantee) + " " + text
	}
	return text
}

// tenTicks is the CPU time from which on its parts say something: the kernel counts 100 ticks a second or more.
const tenTicks = 0.1

func cpuSummary(r *record.Record) string {
	cpu, cores := headlineText(r, procstats.HeadlineCPU), headlineText(r, procstats.HeadlineCoresAverage)
	user, _ := numberOf(r.Measurements, procstats.CgroupCPUUser)
	system, _ := numberOf(r.Measurements, procstats.CgroupCPUSystem)
	total := r.Headline[procstats.HeadlineCPU.String()]
	if total.Source == procstats.CgroupCPUUsage.String() && user+system >= tenTicks {
		// The kernel estimates the parts from ticks; of version 1 they do not add up to the total.
		scale := *total.Value / (user + system)
		cpu += fmt.Sprintf(" (user %s, system %s)", procstats.Seconds.Text(user*scale), procstats.Seconds.Text(system*scale))
	}
	if cpu == "" || cores == "" {
		return cpu
	}
	return cpu + ", " + cores + " on average"
}

func memorySummary(r *record.Record) string {
	h := r.Headline[procstats.HeadlineMemoryPeak.String()]
	peak := headlineText(r, procstats.HeadlineMemoryPeak)
	if peak == "" {
		return ""
	}
	what := h.Source
	switch {
	case h.Source == procstats.CgroupMemoryPeak.String() && h.Guarantee == procstats.Exact:
		what = "exact, including page cache"
	case h.Guarantee == procstats.Exact, h.Guarantee == procstats.Sampled: // of a bound, peak has the guarantee
		what = string(h.Guarantee) + ", " + what
	}
	text := fmt.Sprintf("peak %s (%s)", peak, what)
	if limit, ok := EffectiveLimit(r, procstats.CgroupMemoryMax); ok {
		text += " of " + procstats.Bytes.Text(limit)
	}
	uncharged := func(n procstats.Note) bool { return n.Rule == procstats.MemoryUnchargedRule }
	if i := slices.IndexFunc(h.Notes, uncharged); i >= 0 {
		text += " and " + h.Notes[i].Cause
	}
	return record.Join(", ", text, named("swapped ", headlineText(r, procstats.HeadlineSwap)),
		named("huge pages ", headlineText(r, procstats.HeadlineHugetlb)))
}

// networkSummary returns what was received and sent, and over the loopback interface; empty if that is nothing, or
// not known.
func networkSummary(r *record.Record) string {
	pair := func(received, sent procstats.ID, text func(*record.Record, procstats.ID) string) string {
		return "received " + text(r, received) + ", sent " + text(r, sent)
	}
	moved := func(ids ...procstats.ID) (bytes float64) {
		for _, id := range ids {
			n, _ := numberOf(r.Measurements, id)
			bytes += n
		}
		return bytes
	}
	var text, loopback string
	if moved(procstats.SkbReceived, procstats.SkbSent) > 0 {
		text = pair(procstats.HeadlineNetworkReceived, procstats.HeadlineNetworkSent, headlineText)
	}
	if moved(procstats.SkbLoopbackReceived, procstats.SkbLoopbackSent) > 0 {
		loopback = pair(procstats.SkbLoopbackReceived, procstats.SkbLoopbackSent, bytesText)
	}
	return record.Join("; ", text, named("over loopback ", loopback))
}

// bytesText returns a number of bytes; 0 if it was not measured.
func bytesText(r *record.Record, id procstats.ID) string {
	n, _ := numberOf(r.Measurements, id)
	return procstats.Bytes.Text(n)
}

// writtenOf returns what became of the bytes that the task wrote.
func writtenOf(r *record.Record) procstats.Written {
	var cancelled procstats.Sample
	if bytes, ok := numberOf(r.Measurements, procstats.TreeIOCancelledWrite); ok {
		cancelled.SetNumber(procstats.TreeIOCancelledWrite, bytes)
	}
	return procstats.WrittenOf(&cancelled, record.HeadlineList(r.Headline))
}

// waitedSummary returns the share of the run in which some process waited.
func waitedSummary(r *record.Record) string {
	span, ok := r.Span()
	if !ok {
		return ""
	}
	var words []string
	for _, pressure := range []struct {
		id   procstats.ID
		what string
	}{{procstats.PSICPUSome, "CPU"}, {procstats.PSIMemorySome, "memory"}, {procstats.PSIIOSome, "I/O"}} {
		if seconds, ok := numberOf(r.Measurements, pressure.id); ok {
			words = append(words, pressure.what+" "+procstats.Share.Text(seconds/span))
		}
	}
	text := ""
	if len(words) > 0 {
		text = "for " + strings.Join(words, ", ") + " of the time"
		if left, _ := numberOf(r.Measurements, procstats.TreeLeftPressure); left > 0 {
			text += ", without the processes that ran outside its cgroup"
		}
	}
	if text = record.Join("; ", append([]string{text}, r.Throttling()...)...); text == "" {
		return ""
	}
	return record.Join(": ", text, cli.Printable(r.Diagnosis.StallText()))
}

// Markdown returns how a run ended, what it used and what became of its budgets, as a section with a table.
func Markdown(r *record.Record, budgets []budget.Result) string {
	var b strings.Builder
	title := codeSpan(cli.CommandLine(r.Command))
	fmt.Fprintf(&b, "### %s\n\n%s\n\n| | |\n|---|---|\n", title, cli.Markdown(r.End().Summary))
	for _, line := range Lines(r) {
		fmt.Fprintf(&b, "| %s | %s |\n", line[0], cli.Markdown(line[1]))
	}
	b.WriteString(Budgets(budgets))
	return b.String()
}

// Budgets returns what became of budgets as a table; empty for none.
func Budgets(budgets []budget.Result) string {
	var b strings.Builder
	if len(budgets) > 0 {
		b.WriteString("\n| budget: fails if | | |\n|---|---|---|\n")
	}
	for _, result := range budgets {
		word := "held"
		if result.Failed {
			word = "**failed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", cli.Markdown(result.Budget), word, cli.Markdown(result.Reason))
	}
	b.WriteByte('\n')
	return b.String()
}

// codeSpan returns a text as code, in more backticks than it has in a row.
func codeSpan(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	blank := ""
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		blank = " "
	}
	return fence + blank + text + blank + fence
}
