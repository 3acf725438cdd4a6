// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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

// pageCommands is how many rows the page has; --json has all.
const pageCommands = 30

// commands writes the section on the ended processes by command: rows, others and unattributed make the total.
func (p *Page) commands() {
	c := p.record.Commands
	if c == nil {
		return
	}
	p.Title("Commands, all processes that ended")
	if c.Reason != "" {
		p.line("unknown: %s", cli.Printable(c.Reason))
		return
	}
	p.Table(commandTable(c, 0, p.FailedFirst, pageCommands))
	p.failures(c, pageCommands)
	for _, note := range CommandNotes(c) {
		p.line("%s", note)
	}
}

// CommandNotes say what is not in a table of commands.
func CommandNotes(c *record.Commands) []string { return c.Notes(TimeText) }

// CommandTable lists the ended processes of a task by command, at most so many columns wide; it is empty if they are
// not known. With byFailures the commands with most failures come first.
func CommandTable(c *record.Commands, width int, byFailures bool) *cli.Table {
	return commandTable(c, width, byFailures, pageCommands)
}

// commandTable is CommandTable with at most so many commands.
func commandTable(c *record.Commands, width int, byFailures bool, most int) *cli.Table {
	if c == nil || c.Reason != "" {
		return &cli.Table{}
	}
	t := &cli.Table{
		Width: width, Indent: "  ", Header: []string{
			"COMMAND", "STARTED", "FAILED", "CPU", "SHARE", "LARGEST", "READ", "WRITTEN",
			"WAITED FOR CPU",
		},
		Right: []int{1, 2, 3, 4, 5, 6, 7, 8}, Leave: []int{7, 6, 8, 5},
	}
	for _, row := range shownCommands(c, byFailures, most) {
		addCommand(t, &row, c.TotalCPUSeconds)
	}
	sums := func(name string, cpu *float64) {
		t.AddTexts(name, "", "", cli.Optional(procstats.Seconds, cpu), shareOf(cpu, c.TotalCPUSeconds))
	}
	sums("unattributed", c.UnattributedCPUSeconds)
	sums("total", c.TotalCPUSeconds)
	return t
}

// shownCommands returns the commands that have a row, and the others as one. With byFailures those with most failures
// come first.
func shownCommands(c *record.Commands, byFailures bool, most int) []procstats.Command {
	sorted := *c
	if byFailures {
		sorted.Rows = slices.Clone(c.Rows)
		slices.SortStableFunc(sorted.Rows, func(a, b procstats.Command) int { return cmp.Compare(b.Failed, a.Failed) })
	}
	rows, others := sorted.Split(most)
	if others != nil {
		others.Name = "others"
		rows = append(rows, *others)
	}
	return rows
}

func addCommand(t *cli.Table, row *procstats.Command, total *float64) {
	largest := procstats.Bytes.Text(float64(row.PeakRSSBytes))
	if row.PeakRSSGuarantee != procstats.Exact {
		largest = cli.GuaranteeText(row.PeakRSSGuarantee) + " " + largest
	}
	t.AddTexts(cli.Printable(row.Name), strconv.FormatInt(row.Processes, 10), strconv.FormatInt(row.Failed, 10),
		procstats.Seconds.Text(row.CPUSeconds),
		shareOf(&row.CPUSeconds, total), largest, optionalBytes(row.ReadBytes), optionalBytes(row.WrittenBytes),
		cli.Optional(procstats.Seconds, row.RunDelaySeconds))
}

func optionalBytes(n *int64) string {
	if n == nil {
		return procstats.NoValue
	}
	return procstats.Bytes.Text(float64(*n))
}

// failures writes how processes failed, one line a command, of so many commands.
func (p *Page) failures(c *record.Commands, most int) {
	for _, row := range shownCommands(c, p.FailedFirst, pageCommands) {
		if ways := row.FailureText(); ways != "" && most > 0 {
			most--
			p.line("%d of %d %s failed: %s", row.Failed, row.Processes, cli.Printable(row.Name), ways)
		}
	}
}

// summaryCommands is how many commands a summary names, and leastShare the share of the CPU time from which one is
// named.
const (
	summaryCommands = 3
	leastShare      = 0.05
)

// Commands names the commands that used most of the CPU time of a run; empty if that is one alone, or not known.
func Commands(r *record.Record) string {
	c := r.Commands
	if c == nil || len(c.Rows) < 2 || c.TotalCPUSeconds == nil {
		return "" // who used it is no question, or not known
	}
	var words []string
	for i := range c.Rows[:min(len(c.Rows), summaryCommands)] {
		row := &c.Rows[i]
		if row.CPUSeconds < leastShare**c.TotalCPUSeconds {
			break
		}
		word := cli.Printable(row.Name)
		if row.Processes > 1 {
			word += fmt.Sprintf(" ×%d", row.Processes)
		}
		words = append(words, word+" "+shareOf(&row.CPUSeconds, c.TotalCPUSeconds))
	}
	return strings.Join(words, ", ")
}

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
