// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"math"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

const (
	// mostBars is how many commands have a bar, and widestBar how many columns the longest may have.
	mostBars  = 8
	widestBar = 60
	// besideBar is room for a name, how many there were, the share and the CPU time.
	besideBar = 45
)

// BarsTitle is what bars of commands are.
const BarsTitle = "CPU by command, all processes that ended"

// CommandBar is a part of the CPU time of a run.
type CommandBar struct {
	// Processes says how many there were; empty where they are not counted.
	Name, Processes string
	// CPU and ShareText say how much it is, Share how much of all of it.
	CPU, ShareText string
	Share          float64
}

// CommandBars are how much CPU time the ended processes of a run used, by command; none if that is not known.
func CommandBars(r *record.Record) (bars []CommandBar) {
	c := r.Commands
	if c == nil || c.Reason != "" || c.TotalCPUSeconds == nil || *c.TotalCPUSeconds <= 0 || len(c.Rows) == 0 {
		return nil
	}
	bar := func(name, processes string, cpu float64) {
		bars = append(bars, CommandBar{
			name, processes, procstats.Seconds.Text(cpu),
			shareOf(&cpu, c.TotalCPUSeconds), cpu / *c.TotalCPUSeconds,
		})
	}
	counted := func(name string, row *procstats.Command) {
		bar(name, "×"+procstats.None.Text(float64(row.Processes)), row.CPUSeconds)
	}
	rows, others := c.First(mostBars)
	for i := range rows {
		counted(cli.Printable(rows[i].Name), &rows[i])
	}
	if others != nil {
		counted("others", others)
	}
	if c.UnattributedCPUSeconds != nil {
		bar("unattributed", "", *c.UnattributedCPUSeconds)
	}
	return bars
}

// CommandBarsText draws them on so many columns; empty if there are none.
func CommandBarsText(r *record.Record, p cli.Palette, columns int) string {
	bars := CommandBars(r)
	if len(bars) == 0 {
		return ""
	}
	longest := float64(max(10, min(widestBar, columns-besideBar)))
	t := cli.Table{Indent: "  ", Right: []int{1, 2, 4}}
	for _, b := range bars {
		t.AddTexts(b.Name, b.Processes, b.CPU, blocks(longest*max(0, b.Share)), b.ShareText)
	}
	return p.Bold(BarsTitle) + "\n" + t.Render(p)
}

// blocks is a bar of so many columns, in eighths.
func blocks(columns float64) string {
	eighths := int(math.Round(8 * columns))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string(rune('█' + 8 - rest)) // U+2588 is the full block, and the next seven are each an eighth less
	}
	return text
}
