// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// processes is the section with the rows that, with what exited and what nobody accounts for, make the total.
func (p *Page) processes() {
	processes := p.record.Processes
	if processes == nil {
		return
	}
	p.section("Processes")
	if processes.Reason != "" {
		fmt.Fprintf(&p.text, "  %s\n", cli.Printable(processes.Reason))
	}
	if len(processes.Rows) == 0 && processes.TotalCPUSeconds == nil {
		return
	}
	t := cli.Table{
		Indent: "  ", Header: []string{"PID", "PARENT", "CPU", "SHARE", "RSS", "COMMAND"},
		Right: map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true},
	}
	total := processes.TotalCPUSeconds
	for i := range processes.Rows {
		row := &processes.Rows[i]
		cpu := rowCPU(row)
		t.AddTexts(strconv.Itoa(row.PID), strconv.Itoa(row.PPID), cli.Optional(procstats.Seconds, cpu), shareOf(cpu, total),
			rowValue(row, procstats.ProcessRSS, procstats.PortableProcessRSS), cli.Printable(row.Command))
	}
	sums := func(name string, cpu *float64) {
		t.AddTexts("", "", cli.Optional(procstats.Seconds, cpu), shareOf(cpu, total), "", name)
	}
	sums(fmt.Sprintf("exited (%d seen)", processes.Exited.Processes), processes.Exited.CPUSeconds)
	sums("unattributed", processes.UnattributedCPUSeconds)
	sums("total", total)
	p.text.WriteString(t.Render(p.palette))
	if processes.Omitted > 0 {
		fmt.Fprintf(&p.text, "  %d live processes have no row\n", processes.Omitted)
	}
	p.sum(processes)
}

// rowCPU is the CPU time of a row; nil where it was not measured.
func rowCPU(row *record.ProcessRow) *float64 {
	for _, id := range []procstats.ID{procstats.ProcessCPU, procstats.PortableProcessCPU} {
		if value, ok := numberOf(row.Measurements, id); ok {
			return &value
		}
	}
	return nil
}

func shareOf(part, whole *float64) string {
	if part == nil || whole == nil {
		return ""
	}
	return procstats.Share.Text(*part / *whole)
}

// sum says whether the table adds up: that it does is what makes it trustworthy.
func (p *Page) sum(processes *record.Processes) {
	if processes.TotalCPUSeconds == nil {
		p.text.WriteString("  the total is not known, so nothing can be said of the sum\n")
		return
	}
	sum, missing := processSum(processes)
	total := *processes.TotalCPUSeconds
	// A microsecond is what cpu.stat resolves.
	switch off := sum - total; {
	case missing > 0:
		fmt.Fprintf(&p.text, "  the table does not add up: values that are not known: %d\n", missing)
	case math.Abs(off) <= 1e-6+1e-9*math.Abs(total):
		p.text.WriteString("  rows + exited + unattributed = total\n")
	default:
		fmt.Fprintf(&p.text, "  %s\n", p.palette.Red(fmt.Sprintf(
			"rows + exited + unattributed = %s, which is %s off the total", procstats.Seconds.Text(sum), procstats.Seconds.Text(off))))
	}
}

// processSum adds up the rows, exited and unattributed, and counts the values that are not known.
func processSum(processes *record.Processes) (sum float64, missing int) {
	parts := []*float64{processes.Exited.CPUSeconds, processes.UnattributedCPUSeconds}
	for i := range processes.Rows {
		parts = append(parts, rowCPU(&processes.Rows[i]))
	}
	for _, part := range parts {
		if part == nil {
			missing++
			continue
		}
		sum += *part
	}
	return sum, missing
}
