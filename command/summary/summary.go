// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/record"
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
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", p.Bold("tacho:"), cli.OneLine(r.End().Summary))
	t := cli.Table{Indent: "  "}
	for _, line := range summaryLines(r) {
		if line[1] != "" {
			t.AddTexts(line[0], line[1])
		}
	}
	b.WriteString(t.Render(p))
	if name != "" {
		b.WriteString(p.Faint(fmt.Sprintf("  tacho show %s", name)) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func summaryLines(r *record.Record) [][2]string {
	end := r.End()
	return [][2]string{
		{"wall", cli.Optional(procstats.Seconds, r.WallSeconds)},
		{"cpu", cpuSummary(r)},
		{"memory", memorySummary(r)},
		{"i/o", ioSummary(r)},
		{"waited", waitedSummary(r)},
		{"limits", limitsSummary(r)},
		{"last reading", end.LastReading},
		{"remedy", cli.OneLine(end.Remedy)},
	}
}

// headlineText returns a headline with its guarantee; empty if it was not measured.
func headlineText(r *record.Record, id procstats.ID) string {
	h, given := r.Headline[id.String()]
	if !given || h.Value == nil {
		return ""
	}
	text := procstats.UnitOf(id.String()).Text(*h.Value)
	switch h.Guarantee {
	case procstats.LowerBound, procstats.UpperBound:
		return cli.GuaranteeText(h.Guarantee) + " " + text
	case procstats.Exact, procstats.Sampled:
	}
	return text
}

func cpuSummary(r *record.Record) string {
	cpu := headlineText(r, procstats.HeadlineCPU)
	if cpu == "" {
		return ""
	}
	if cores := headlineText(r, procstats.HeadlineCoresAverage); cores != "" {
		cpu += ", " + cores + " on average"
	}
	return cpu
}

func memorySummary(r *record.Record) string {
	h := r.Headline[procstats.HeadlineMemoryPeak.String()]
	peak := headlineText(r, procstats.HeadlineMemoryPeak)
	if peak == "" {
		return ""
	}
	what := h.Source // for bounds, peak has the guarantee
	switch h.Guarantee {
	case procstats.Exact, procstats.Sampled:
		what = string(h.Guarantee) + ", " + what
	case procstats.LowerBound, procstats.UpperBound:
	}
	if h.Source == procstats.CgroupMemoryPeak.String() && h.Guarantee == procstats.Exact {
		what = "exact, including page cache"
	}
	text := fmt.Sprintf("peak %s (%s)", peak, what)
	if limit, ok := effectiveLimit(r, procstats.CgroupMemoryMax); ok {
		text += " of " + procstats.Bytes.Text(limit)
	}
	return text
}

func ioSummary(r *record.Record) string {
	var words []string
	if read := headlineText(r, procstats.HeadlineIORead); read != "" {
		words = append(words, "read "+read)
	}
	if written := headlineText(r, procstats.HeadlineIOWrite); written != "" {
		words = append(words, "written "+written)
	}
	return strings.Join(words, ", ")
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
		if seconds, ok := r.Measurements[pressure.id.String()].(float64); ok {
			words = append(words, pressure.what+" "+procstats.Share.Text(seconds/span))
		}
	}
	var parts []string
	if len(words) > 0 {
		parts = append(parts, "for "+strings.Join(words, ", ")+" of the time")
	}
	if throttled, ok := r.Measurements[procstats.CgroupCPUThrottled.String()].(float64); ok && throttled > 0 {
		parts = append(parts, fmt.Sprintf("throttled by its CPU quota for %s, summed over CPUs", procstats.Seconds.Text(throttled)))
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, "; ")
	if r.Diagnosis.Stall != "" {
		text += ": " + string(r.Diagnosis.Stall)
	}
	return text
}
