// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"math"
	"strings"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

const (
	// mostBars is how many commands have a bar, and widestBar how many columns the longest may have.
	mostBars  = 8
	widestBar = 60
	// besideBar is room for a name, how many there were, the share and the CPU time.
	besideBar = 45
)

// CommandBars draws how much CPU time the ended processes of a run used, by command, on so many columns; empty if that is not known.
func CommandBars(r *record.Record, p cli.Palette, columns int) string {
	c := r.Commands
	if c == nil || c.Reason != "" || c.TotalCPUSeconds == nil || *c.TotalCPUSeconds <= 0 || len(c.Rows) == 0 {
		return ""
	}
	longest := float64(max(10, min(widestBar, columns-besideBar)))
	t := cli.Table{Indent: "  ", Right: []int{1, 2, 4}}
	bar := func(name, processes string, cpu float64) {
		t.AddTexts(name, processes, procstats.Seconds.Text(cpu), blocks(longest*max(0, cpu) / *c.TotalCPUSeconds), shareOf(&cpu, c.TotalCPUSeconds))
	}
	rows, others := c.Split(mostBars)
	for i := range rows {
		bar(cli.Printable(rows[i].Name), "×"+procstats.None.Text(float64(rows[i].Processes)), rows[i].CPUSeconds)
	}
	if others != nil {
		bar("others", "×"+procstats.None.Text(float64(others.Processes)), others.CPUSeconds)
	}
	if c.UnattributedCPUSeconds != nil {
		bar("unattributed", "", *c.UnattributedCPUSeconds)
	}
	return p.Bold("CPU by command, all processes that ended") + "\n" + t.Render(p)
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
