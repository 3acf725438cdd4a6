// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	_ "embed" // of the page of keys
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
)

// view returns the lines of the screen, at most height, of at most width columns.
func (m *topModel) view(width, height int) []string {
	head := m.head(width)
	room := max(0, height-len(head))
	switch {
	case m.help:
		return append(head, m.window(helpLines(width), room)...)
	case m.logs:
		return append(head, m.window(m.logLines(width), room)...)
	case m.tree:
		return append(head, m.window(m.treeLines(width), room)...)
	}
	const least = 4 // lines without a bar of keys
	if room < least {
		return append(head, m.list(width, room)...)
	}
	body := m.list(width, room-1)
	body = append(body, slices.Repeat([]string{""}, max(0, room-1-len(body)))...)
	return slices.Concat(head, body, []string{m.palette.Faint(cli.Fit(topBar(), "  ", width))})
}

// topBar names the keys that are used most.
func topBar() []string {
	return []string{
		"h help", "enter processes", "l logs", "R restart", "S stop", "x shell", "/ filter", "q quit", "c m i w e sort",
	}
}

// logLines returns the page of a task's output.
func (m *topModel) logLines(width int) []string {
	row, _ := m.chosen()
	if row == nil || row.key() != m.selected {
		return []string{cli.Cut("the task does not exist any more (esc: back)", width)}
	}
	title := cli.Fit([]string{cli.Printable(row.title()), row.word(), "(esc: back)"}, "  ", width)
	lines := []string{m.palette.Bold(title)}
	for _, line := range row.output {
		lines = append(lines, cli.Cut(line, width))
	}
	return lines
}

// meters returns what the machine uses, as bars; empty if unknown.
func (m *topModel) meters() []string {
	if m.machine == nil {
		return nil
	}
	var parts []string
	meter := func(name string, used, whole float64, text string) {
		const blocks = 10
		filled := min(blocks, max(0, int(math.Round(blocks*used/whole))))
		parts = append(parts, name+" "+strings.Repeat("█", filled)+strings.Repeat("░", blocks-filled)+" "+text)
	}
	if cores := float64(len(m.machine.CPU)); cores > 0 {
		busy := 0.0
		for _, c := range m.machine.CPU {
			busy += c.TotalPercent / 100
		}
		meter("machine CPU", busy, cores, procstats.CoresText(busy)+" of "+strconv.Itoa(len(m.machine.CPU))+" cores")
	}
	if memory := m.machine.Memory; memory != nil && memory.Total > 0 {
		used := memory.Total - memory.Available
		meter("memory", used, memory.Total, procstats.Bytes.Text(used)+" of "+procstats.Bytes.Text(memory.Total))
	}
	return parts
}

// head returns the lines above every page.
func (m *topModel) head(width int) []string {
	running := 0
	var cores, memory *float64
	for _, r := range m.rows {
		if r.State == "running" {
			running++
		}
		cores, memory = sum(cores, r.Cores), sum(memory, r.Memory)
	}
	order := "by " + m.sort
	if m.reverse {
		order += ", reversed"
	}
	first := cli.Fit([]string{
		"tacho top", m.at.Local().Format("15:04:05"), fmt.Sprintf("tasks: %d, running: %d", len(m.rows), running),
		"CPU " + coresText(cores),
		"memory " + cli.Optional(procstats.Bytes, memory), order, "h: help", "every " + m.delay.String(),
	}, "  ", width)
	second := ""
	switch parts := m.meters(); {
	case m.said != "":
		second = m.palette.Yellow(cli.Cut(cli.Printable(m.said), width))
	case m.err != nil:
		second = m.palette.Red(cli.Cut("outdated: "+cli.OneLine(m.err.Error()), width))
	case m.typing:
		second = cli.Cut("filter: "+cli.Printable(m.filter), width-1) + m.palette.Reverse(" ")
	case m.filter != "":
		second = m.palette.Yellow(cli.Cut(fmt.Sprintf("filter: %s (/ edits, esc removes it)",
			cli.Printable(m.filter)), width))
	case len(parts) > 0:
		second = cli.Fit(parts, "  ", width)
	}
	return []string{m.palette.Bold(first), second}
}

// list returns the page of all tasks, scrolled to the selected one.
func (m *topModel) list(width, room int) []string {
	lines := m.table(true, width).Lines(m.palette)
	head, lines := lines[:1], lines[1:]
	if len(lines) == 0 {
		text := "  " + m.none
		if m.filter != "" {
			text = "  no task matches the filter"
		}
		return append(head, cli.Cut(text, width))[:min(2, room)]
	}
	_, at := m.chosen()
	lines[at] = m.selectedLine(lines[at], width)
	body := max(0, room-len(head))
	from := max(0, min(at-body/2, len(lines)-body))
	return append(head, lines[from:min(len(lines), from+body)]...)[:min(room, 1+len(lines)-from)]
}

// selectedLine reverses a line over its whole width, which is no colour and so not switched off with them. A reset
// after a colour ends that, so it is repeated.
func (m *topModel) selectedLine(line string, width int) string {
	const invert = "\x1b[7m"
	bare := cli.VisibleWidth(line)
	line += strings.Repeat(" ", max(0, width-bare))
	return invert + strings.ReplaceAll(line, "\x1b[0m", "\x1b[0m"+invert) + "\x1b[0m"
}

// sparkline is the number of columns of a sparkline.
const sparkline = 12

// The columns of the table that more than its head names.
const (
	topState = iota + 1
	topLast
	_
	topSpark
)

// table has one line per task.
func (m *topModel) table(sparks bool, width int) *cli.Table {
	t := &cli.Table{
		Width: width, Right: []int{3, 5, 6, 7, 8, 9, 10},
		Leave: []int{12, 10, 8, 9, topSpark, 7, topState, 6, cli.Shorten}, Least: map[int]int{0: 10, 11: 13},
	}
	t.Header = []string{
		"TASK", "STATE", "LAST END", "CPU", "", "MEMORY", "LIMIT", "PEAK", "READ/s", "WRITTEN/s", "PROCS",
		"PRESSURE", "ALLOCATION",
	}
	rows := m.visible()
	if !sparks {
		t.Hidden = append(t.Hidden, topSpark)
	}
	if !slices.ContainsFunc(rows, func(r *topRow) bool { return r.last(m.at) != "" }) {
		t.Hidden = append(t.Hidden, topLast)
	}
	for _, r := range rows {
		f := r.usage
		word, paint := r.word(), statusPaint(m.palette, r.State)
		if r.Outcome != "" {
			paint = summary.OutcomePaint(m.palette, r.Outcome)
		}
		pressure := cli.Painted(pressureText(f), pressurePaint(m.palette, f))
		if r.sample == nil && r.Reason != "" && r.State == "running" {
			pressure = cli.Painted(cli.OneLine(r.Reason), m.palette.Faint)
		}
		row := []any{
			r.title(), cli.Painted(word, paint), cli.Painted(r.last(m.at), lastPaint(m.palette, r)),
			cli.Painted(coresText(f.Cores), m.palette.Bold), cli.Painted(sparkText(r.past, sparkline), m.palette.Green),
			cli.Painted(cli.Optional(procstats.Bytes, f.Memory), sharePaint(m.palette, ratio(f.Memory, f.Limit))),
		}
		for _, value := range []*float64{f.Limit, f.Peak, f.Read, f.Written} {
			row = append(row, cli.Optional(procstats.Bytes, value))
		}
		t.Add(append(row, cli.Optional(procstats.None, f.Processes), pressure,
			cli.Painted(shortID(r.Alloc), m.palette.Faint))...)
	}
	return t
}

// lastPaint returns the colour of the last end of a task.
func lastPaint(p cli.Palette, r *topRow) func(string) string {
	if r.LastEnd == nil || !r.LastEnd.Problem() {
		return p.Faint
	}
	return p.Red
}

// sharePaint returns a warning colour if most of a limit is used.
func sharePaint(p cli.Palette, share *float64) func(string) string {
	switch {
	case share == nil || *share < 0.75:
		return nil
	case *share < 0.9:
		return p.Yellow
	}
	return p.Red
}

func pressurePaint(p cli.Palette, f usage) func(string) string {
	return sharePaint(p, greatest(f.CPUPressure, f.MemoryPressure, f.IOPressure))
}

// sparkText draws the last readings as blocks, scaled to the highest of them, at least a tenth of a core. Missing
// readings are blank.
func sparkText(past []*float64, columns int) string {
	const blocks = "▁▂▃▄▅▆▇█"
	runes := []rune(blocks)
	past = past[max(0, len(past)-columns):]
	highest := 0.1
	for _, v := range past {
		if v != nil {
			highest = max(highest, *v)
		}
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", columns-len(past)))
	for _, v := range past {
		if v == nil {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(runes[min(len(runes)-1, int(*v/highest*float64(len(runes))))])
	}
	return b.String()
}

// window returns the visible part of a page.
func (m *topModel) window(lines []string, room int) []string {
	m.bottom = max(0, len(lines)-room)
	lines = lines[min(m.scroll, m.bottom):]
	return lines[:min(room, len(lines))]
}

// treeLines returns the page of one task: its processes, exited and unattributed, which add up to the total.
func (m *topModel) treeLines(width int) []string {
	row, _ := m.chosen()
	if row == nil || row.key() != m.selected {
		return []string{cli.Cut("the task does not exist any more (esc: back)", width)}
	}
	lines := m.taskHead(row, width)
	if row.sample == nil || row.sample.Processes == nil {
		return append(lines, cli.Cut("  not measured: "+cli.OneLine(row.Reason), width))
	}
	t := cli.Table{
		Width: width, Header: []string{"PID", "CPU", "TIME", "WAITED", "RSS", "STATE", "THREADS", "COMMAND"},
		Right: []int{0, 1, 2, 3, 4, 6}, Leave: []int{3},
	}
	processes := row.sample.Processes
	for _, line := range processTree(processes.Rows) {
		p := line.Process
		state := procstats.NoValue
		if text, ok := p.Measurements[procstats.ProcessState.String()].(string); ok {
			state = cli.Printable(text)
		}
		t.AddTexts(strconv.Itoa(p.PID), coresText(processCores(row, p)),
			summary.FirstValue(p.Measurements, procstats.ProcessCPU, procstats.PortableProcessCPU),
			summary.FirstValue(p.Measurements, procstats.ProcessRunDelay),
			summary.FirstValue(p.Measurements, procstats.ProcessRSS, procstats.PortableProcessRSS),
			state, summary.FirstValue(p.Measurements, procstats.ProcessThreads), indented(line))
	}
	add := func(cores, seconds, name string) { t.AddTexts("", cores, seconds, "", "", "", "", name) }
	sums, notes := closing(row.sample, "ago")
	for _, sum := range sums {
		add("", sum[1], sum[0])
	}
	total := cmp.Or(processes.Total.CPUSeconds, row.sample.Headline[procstats.HeadlineCPU.String()].Value)
	add(coresText(row.Cores), cli.Optional(procstats.Seconds, total), "total")
	for _, note := range notes {
		add("", "", note)
	}
	return slices.Concat(lines, t.Lines(m.palette), m.commandLines(row, width))
}

// taskHead names a task and what it uses. On a narrow screen it takes a second line: what a page is opened for is not
// what leaves it.
func (m *topModel) taskHead(row *topRow, width int) []string {
	f := row.usage
	name := []string{cli.Printable(row.title()), row.word(), "CPU " + coresText(f.Cores)}
	use := []string{
		"memory " + cli.Optional(procstats.Bytes, f.Memory) + " of " + cli.Optional(procstats.Bytes, f.Limit),
		"peak " + cli.Optional(procstats.Bytes, f.Peak), "pressure " + pressureText(f),
	}
	all := append(slices.Concat(name, use), "(esc: back)")
	lines := []string{m.palette.Bold(cli.Fit(all, "  ", width))}
	if utf8.RuneCountInString(strings.Join(slices.Concat(name, use), "  ")) > width {
		lines = []string{m.palette.Bold(cli.Fit(name, "  ", width)), cli.Fit(use, "  ", width)}
	}
	var flows []string
	flow := func(format string, in, out *float64) {
		if in != nil || out != nil {
			flows = append(flows, fmt.Sprintf(format, cli.Optional(procstats.Bytes, in), cli.Optional(procstats.Bytes, out)))
		}
	}
	flow("storage read %s/s, written %s/s", f.Read, f.Written)
	flow("network received %s/s, sent %s/s", f.Received, f.Sent)
	return append(lines, cli.Fit(flows, "  ", width))
}

// commandLines lists the processes of a task that have ended, by command; nothing if that is not known.
func (m *topModel) commandLines(row *topRow, width int) []string {
	c := row.commands
	if c == nil || c.Reason != "" || len(c.Rows) == 0 {
		return nil
	}
	title := "Processes that ended, by command (f: failed first)"
	if m.failedFirst {
		title = "Processes that ended, by command, failed first (f: by CPU)"
	}
	table := summary.CommandTable(c, width, m.failedFirst).Lines(m.palette)
	lines := append([]string{"", m.palette.Bold(cli.Cut(title, width))}, table...)
	if c.LostRecords > 0 || len(c.Gaps) > 0 { // that it began a moment after the task is said elsewhere
		for _, note := range summary.CommandNotes(c) {
			lines = append(lines, cli.Cut("  "+note, width))
		}
	}
	return lines
}

//go:embed top_keys.txt
var topKeys string

// helpLines returns the page of keys.
func helpLines(width int) (lines []string) {
	for line := range strings.Lines(topKeys) {
		lines = append(lines, cli.Cut(strings.TrimSuffix(line, "\n"), width))
	}
	return lines
}
