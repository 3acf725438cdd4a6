// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// screenRows is how many processes, or commands, a screen has, and screenFailures of how many it says how they failed.
const screenRows, screenFailures = 8, 2

// largest writes the commands that used most of the CPU time, of a run that has ended, or the processes, where the
// commands are not known or the run goes on.
func (p *Page) largest() {
	c, processes := p.record.Commands, p.record.Processes
	if c != nil && c.Reason == "" && len(c.Rows) > 0 && p.record.State != record.Running {
		p.Title("Commands, all processes that ended")
		p.Table(commandTable(c, p.Columns, p.FailedFirst, screenRows-1))
		p.failures(c, screenFailures)
		return
	}
	if processes == nil || len(processes.Rows) == 0 {
		return
	}
	p.Title("Processes, by CPU time")
	rows := slices.SortedStableFunc(slices.Values(processes.Rows), func(a, b record.ProcessRow) int {
		return cmp.Compare(rowCPU(&b), rowCPU(&a))
	})
	t, _ := processTable(rows[:min(screenRows, len(rows))], processes.TotalCPUSeconds)
	t.Width = p.Columns
	p.Table(t)
}

// rowCPU is the CPU time of a process; 0 if it is not known.
func rowCPU(row *record.ProcessRow) float64 {
	if cpu := firstNumber(row.Measurements, procstats.ProcessCPU, procstats.PortableProcessCPU); cpu != nil {
		return *cpu
	}
	return 0
}

// processTable returns the rows of processes, and the CPU time of each.
func processTable(rows []record.ProcessRow, total *float64) (t *cli.Table, cpu []*float64) {
	t = &cli.Table{
		Indent: "  ", Header: []string{"PID", "PARENT", "CPU", "SHARE", "WAITED FOR CPU", "RSS", "COMMAND"},
		Right: []int{0, 1, 2, 3, 4, 5}, Leave: []int{4, 1},
	}
	for i := range rows {
		row := &rows[i]
		used := firstNumber(row.Measurements, procstats.ProcessCPU, procstats.PortableProcessCPU)
		cpu = append(cpu, used)
		t.AddTexts(strconv.Itoa(row.PID), strconv.Itoa(row.PPID), cli.Optional(procstats.Seconds, used),
			shareOf(used, total), FirstValue(row.Measurements, procstats.ProcessRunDelay),
			FirstValue(row.Measurements, procstats.ProcessRSS, procstats.PortableProcessRSS), rowCommand(row))
	}
	return t, cpu
}

// processes writes the section on processes: rows, exited and unattributed make the total.
func (p *Page) processes() {
	processes := p.record.Processes
	if processes == nil {
		return
	}
	p.Title("Processes")
	if processes.Reason != "" {
		p.line("%s", cli.Printable(processes.Reason))
	}
	if len(processes.Rows) == 0 && processes.TotalCPUSeconds == nil {
		return
	}
	total := processes.TotalCPUSeconds
	t, parts := processTable(processes.Rows, total)
	parts = append(parts, processes.Exited.CPUSeconds, processes.UnattributedCPUSeconds)
	sums := func(name string, cpu *float64) {
		t.AddTexts("", "", cli.Optional(procstats.Seconds, cpu), shareOf(cpu, total), "", "", name)
	}
	sums(fmt.Sprintf("exited (%d)", processes.Exited.Processes), processes.Exited.CPUSeconds)
	sums("unattributed", processes.UnattributedCPUSeconds)
	sums("total", total)
	p.Table(t)
	if processes.Omitted > 0 {
		one, many := "live process", "live processes"
		if p.record.State != record.Running {
			one, many = "process", "processes"
		}
		p.line("%s without a row", procstats.Counted(processes.Omitted, one, many))
	}
	p.sum(total, parts)
}

// widestCommand is how many columns a command line has in a table at most.
const widestCommand = 100

// rowCommand returns the command line of a row, or its name if no command line was read.
func rowCommand(row *record.ProcessRow) string {
	if line, ok := row.Measurements[procstats.ProcessCmdline.String()].(string); ok {
		return cli.Cut(cli.Printable(line), widestCommand)
	}
	return cli.Printable(row.Command)
}

func shareOf(part, whole *float64) string {
	if part == nil || whole == nil {
		return ""
	}
	return procstats.Share.Text(*part / *whole)
}

// sum writes whether the parts in the table add up to the total.
func (p *Page) sum(total *float64, parts []*float64) {
	if total == nil {
		p.line("total unknown")
		return
	}
	sum, missing := 0.0, 0
	for _, part := range parts {
		if part == nil {
			missing++
			continue
		}
		sum += *part
	}
	// A microsecond is what cpu.stat resolves.
	switch off := sum - *total; {
	case missing > 0:
		p.line("the table does not add up; unknown values: %d", missing)
	case math.Abs(off) <= 1e-6+1e-9*math.Abs(*total):
		p.line("rows + exited + unattributed = total")
	default:
		p.painted(p.Red, fmt.Sprintf(
			"rows + exited + unattributed = %s, %s off the total", procstats.Seconds.Text(sum), procstats.Seconds.Text(off)))
	}
}

// devices writes the section on block devices; nothing if none was used, or they are not known.
func (p *Page) devices() {
	t := cli.Table{
		Indent: "  ", Header: []string{"DEVICE", "NUMBER", "READ", "WRITTEN", "READS", "WRITES"},
		Right: []int{2, 3, 4, 5},
	}
	layers := false
	for _, d := range p.record.Devices {
		name := cli.Printable(cmp.Or(d.Name, procstats.NoValue))
		if d.Layer {
			name, layers = name+" *", true
		}
		t.AddTexts(name, d.Number, procstats.Bytes.Text(float64(d.ReadBytes)), procstats.Bytes.Text(float64(d.WrittenBytes)),
			procstats.None.Text(float64(d.Reads)), procstats.None.Text(float64(d.Writes)))
	}
	p.section("Storage by device", &t)
	if layers {
		p.line("* passes its I/O on to other devices, which count it again")
	}
}
