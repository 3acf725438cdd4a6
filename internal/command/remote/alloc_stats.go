// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// statsOptions are the flags of tacho alloc stats.
type statsOptions struct {
	all     bool
	history bool
	at      string
	process string
	past    client.Range
	output  *outputFlags
}

func newAllocStats() *cobra.Command {
	cmd := cli.Described(help, "alloc stats")
	o := &statsOptions{output: addOutputFlags(cmd)}
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "show all measurements, with the reason for each absent one")
	f.BoolVar(&o.history, "history", false, "show past readings; implied by the next three")
	f.Func("since", "start of the history, a `TIME`", parsed(&o.past.Since, parseMoment))
	f.Func("until", "end of the history, a `TIME`", parsed(&o.past.Until, parseMoment))
	f.Func("step", "show at most one reading per `DURATION`", parsed(&o.past.Step, parseStep))
	f.Func("at", "show the reading nearest to this `TIME`", parsed(&o.at, parseMoment))
	f.StringVar(&o.process, "process", "", "show only the rows of processes with this `NAME`")
	return withAllocation(cmd, completeTasks, func(c *call) error {
		part := client.Part{Task: c.task(), Process: o.process}
		o.history = o.history || o.past != client.Range{}
		switch {
		case o.history && o.at != "":
			return cli.Usagef("--history and --at are mutually exclusive")
		case o.history:
			return o.printHistory(c, part)
		case o.at != "":
			moment, err := c.At(c.ctx, c.args[0], part, o.at)
			return show(c, o.output, moment, err, writeMoment)
		}
		stats, err := c.Stats(c.ctx, c.args[0], part)
		return show(c, o.output, stats, err, func(b *cli.Sheet, stats *client.Stats) {
			if !stats.Tacho.Publishing {
				b.Hang("", "", cli.OneLine(stats.Tacho.Reason), b.Yellow)
			}
			page := &usagePage{Sheet: b, all: o.all, process: o.process}
			for _, name := range slices.Sorted(maps.Keys(stats.Tacho.Tasks)) {
				page.task(name, stats.Tacho.Tasks[name])
			}
		})
	})
}

// usagePage lays out the resource usage of tasks as text.
type usagePage struct {
	*cli.Sheet

	all     bool
	process string // whose rows are shown; empty for all
}

func (p *usagePage) task(name string, r *client.Reading) {
	if p.Len() > 0 {
		p.WriteByte('\n')
	}
	fmt.Fprintf(p, "%s  %s\n", p.Bold("Task "+cli.Printable(name)), ageText(r))
	if r.Reason != "" {
		p.Hang("  ", "  ", cli.OneLine(r.Reason), p.Yellow)
	}
	if r.Sample == nil {
		return
	}
	p.Table(summary.HeadlineTable(r.Sample.Headline, p.Palette))
	for _, text := range record.Contradictions(r.Sample.Headline) {
		p.Hang("  ", "    ", cli.OneLine(text), p.Yellow)
	}
	p.selected(r)
	waited := summary.PressureTable(r.Sample.Measurements, 0) // since the start of the task
	waited.Header = []string{"waited for", "some", "", "all", ""}
	p.Table(waited)
	p.processes(r.Sample)
	if p.all {
		p.measurements(r)
	}
}

// ageText returns the age of a reading.
func ageText(r *client.Reading) string {
	switch {
	case r.AgeSeconds == nil:
		return "not measured"
	case !r.Running:
		return "ended; last read " + procstats.Seconds.Text(*r.AgeSeconds) + " ago"
	}
	text := "read " + procstats.Seconds.Text(*r.AgeSeconds) + " ago"
	if r.IntervalSeconds > 0 {
		text += ", every " + procstats.Seconds.Text(r.IntervalSeconds)
	}
	if r.Backlogged > 0 {
		text += ", " + procstats.Counted(r.Backlogged, "late reading", "late readings")
	}
	return text
}

// selected writes what is measured only of tasks that select it, or why it is absent.
func (p *usagePage) selected(r *client.Reading) {
	s := r.Sample
	t := cli.Table{Indent: "  ", Right: []int{1}}
	for _, id := range []procstats.ID{
		procstats.SmapsPSS, procstats.DiskUsage, procstats.DiskFiles, procstats.DiskWalk, procstats.DiskWalkStart,
	} {
		name := id.String()
		if value, ok := s.Measurements[name]; ok {
			t.AddTexts(name, summary.ValueText(name, value), cli.GuaranteeText(r.Guarantees[name]))
		} else if reason, ok := s.Absent[name]; ok {
			t.Add(name, procstats.NoValue, cli.Painted(reason, p.Faint))
		}
	}
	p.Table(&t)
}

// processes writes the live processes, exited and unattributed, which add up to the total of the task.
func (p *usagePage) processes(s *client.Sample) {
	if s.Processes == nil || len(s.Processes.Rows) == 0 {
		return
	}
	t := processTable()
	for _, line := range processTree(s.Processes.Rows) {
		addProcess(t, line.Process.PID, line.Process.PPID, line.Process.Measurements, indented(line))
	}
	if p.process == "" {
		sums, notes := closing(s, "before")
		for _, sum := range sums {
			t.AddTexts("", "", sum[1], "", sum[0])
		}
		for _, note := range notes {
			t.AddTexts("", "", "", "", note)
		}
	}
	p.Table(t)
}

func processTable() *cli.Table {
	return &cli.Table{
		Indent: "  ", Header: []string{"PID", "PARENT", "CPU", "RSS", "COMMAND"}, Right: []int{0, 1, 2, 3},
	}
}

func addProcess[V any](t *cli.Table, pid, parent int, measurements map[string]V, command string) {
	t.Add(pid, parent, summary.FirstValue(measurements, procstats.ProcessCPU, procstats.PortableProcessCPU),
		summary.FirstValue(measurements, procstats.ProcessRSS, procstats.PortableProcessRSS), command)
}

// closing returns the names and CPU times that make up that of the task, with those of the rows of live processes, and
// what is to be said of the rows; before says of what they were read before.
func closing(s *client.Sample, before string) (sums [][2]string, notes []string) {
	exited := "exited"
	if n := s.Processes.Exited.Processes; n != nil {
		exited = fmt.Sprintf("exited (%.0f)", *n)
	}
	if age := setAge(s); age >= time.Second {
		notes = append(notes, fmt.Sprintf("read %s %s", procstats.AgeText(age), before))
	}
	if n := s.Processes.Omitted; n > 0 {
		notes = append(notes, fmt.Sprintf("%d more without a row", n))
	}
	return [][2]string{
		{exited, cli.Optional(procstats.Seconds, s.Processes.Exited.CPUSeconds)},
		{"unattributed", cli.Optional(procstats.Seconds, s.Processes.Unattributed.CPUSeconds)},
	}, notes
}

func (p *usagePage) measurements(r *client.Reading) {
	t := cli.Table{Indent: "  ", Right: []int{1}}
	for _, name := range cli.TableOrder(r.Sample.Measurements) {
		guarantee := r.Guarantees[name]
		t.Add(name, summary.ValueText(name, r.Sample.Measurements[name]),
			cli.Painted(cli.GuaranteeText(guarantee), summary.GuaranteePaint(p.Palette, guarantee)))
	}
	for _, name := range cli.TableOrder(r.Sample.Absent) {
		t.Add(name, procstats.NoValue, cli.Painted(r.Sample.Absent[name], p.Faint))
	}
	p.Table(&t)
}

func (o *statsOptions) printHistory(c *call, part client.Part) error {
	past, err := c.History(c.ctx, c.args[0], part, o.past)
	return show(c, o.output, past, err, func(b *cli.Sheet, past *apijson.History) {
		for i, name := range slices.Sorted(maps.Keys(past.Tasks)) {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(b.Bold("Task "+cli.Printable(name)) + "\n")
			switch points := past.Tasks[name]; {
			case len(points) == 0:
				b.WriteString("  no readings in this time\n")
			case part.Process != "":
				b.Table(processHistory(b.Palette, points))
			default:
				b.Table(historyTable(b.Palette, points))
			}
		}
	})
}

// startRow returns the time of a row of a history. If there is none but a gap, it adds a row that says so.
func startRow(t *cli.Table, p cli.Palette, point *apijson.Point) (at cli.Cell) {
	at = cli.Painted(point.At.Local().Format(time.DateTime), p.Faint)
	if point.Gap != "" {
		addRemark(t, at, cli.Painted("no readings: "+cli.OneLine(point.Gap), p.Yellow))
	}
	return at
}

// addRemark adds a row that has nothing between its time and its last column.
func addRemark(t *cli.Table, at, remark cli.Cell) {
	row := append([]any{at}, slices.Repeat([]any{""}, len(t.Header)-2)...)
	t.Add(append(row, remark)...)
}

// historyTable lists readings with the rates between them. There is no rate over a gap or a restart.
func historyTable(p cli.Palette, points []apijson.Point) *cli.Table {
	t := &cli.Table{
		Indent: "  ", Header: []string{"TIME", "CPU", "MEMORY", "CHARGED", "PEAK", "READ/s", "WRITTEN/s", "PRESSURE"},
		Right: []int{1, 2, 3, 4, 5, 6}, Leave: []int{3, 6, 5},
	}
	var before *figures.Moment
	for i := range points {
		point := &points[i]
		at := startRow(t, p, point)
		if point.Gap != "" {
			before = nil
			continue
		}
		moment := pointMoment(point)
		now := usageOf(moment, before)
		row := []any{at, coresText(now.Cores)}
		for _, value := range []*float64{now.Memory, now.Charged, now.Peak, now.Read, now.Written} {
			row = append(row, cli.Optional(procstats.Bytes, value))
		}
		t.Add(append(row, pressureText(now))...)
		before = moment
	}
	return t
}

// processHistory lists the processes in readings. There is no CPU over a gap or behind a reading without the process.
func processHistory(p cli.Palette, points []apijson.Point) *cli.Table {
	t := &cli.Table{Indent: "  ", Header: []string{"TIME", "PID", "CPU", "RSS", "COMMAND"}, Right: []int{1, 2, 3}}
	before := &apijson.Point{}
	for i := range points {
		point := &points[i]
		at := startRow(t, p, point)
		if point.Gap == "" && len(point.Processes) == 0 {
			addRemark(t, at, cli.Painted("not among the largest processes", p.Faint))
		}
		for k := range point.Processes {
			row := &point.Processes[k]
			var cores *float64
			if old := sameProcess(before.Processes, row); old != nil {
				cores = coresBetween(old.Number, row.Number, monotonic(point.Mono-before.Mono).Mono)
			}
			t.Add(at, row.PID, coresText(cores),
				summary.FirstValue(row.Measurements, procstats.ProcessRSS, procstats.PortableProcessRSS), row.Command)
		}
		before = point
	}
	return t
}

// sameProcess finds a process among those of another reading; nil if it is not there.
func sameProcess[V any](others []apijson.Process[V], p *apijson.Process[V]) *apijson.Process[V] {
	for i := range others {
		if other := &others[i]; other.PID == p.PID && other.Start == p.Start {
			return other
		}
	}
	return nil
}

// writeMoment writes the readings of all tasks at one moment.
func writeMoment(b *cli.Sheet, moment *apijson.Moment) {
	for _, name := range slices.Sorted(maps.Keys(moment.Tasks)) {
		point := moment.Tasks[name]
		if point == nil {
			fmt.Fprintf(b, "%s  no readings\n", b.Bold("Task "+cli.Printable(name)))
			continue
		}
		fmt.Fprintf(b, "%s  read %s\n", b.Bold("Task "+cli.Printable(name)), summary.TimeText(point.At))
		b.Table(summary.ValueTable(point.Measurements))
		t := processTable()
		for _, row := range point.Processes {
			addProcess(t, row.PID, row.PPID, row.Measurements, row.Command)
		}
		b.Table(t)
	}
}

// usage is the resource usage of a task for one line; nil is unknown.
type usage struct {
	Cores   *float64 `json:"cpu_cores"`
	Memory  *float64 `json:"memory_bytes"`
	Charged *float64 `json:"-"`
	Limit   *float64 `json:"memory_limit_bytes"`
	Peak    *float64 `json:"memory_peak_bytes"`
	// Read and Written are bytes per second.
	Read    *float64 `json:"io_read_bytes_per_second"`
	Written *float64 `json:"io_write_bytes_per_second"`
	// Received and Sent are bytes of IP packets per second, loopback not included.
	Received *float64 `json:"network_received_bytes_per_second"`
	Sent     *float64 `json:"network_sent_bytes_per_second"`
	// The pressures are the shares of time in which some process waited, 0 to 1.
	CPUPressure    *float64 `json:"cpu_waiting_ratio"`
	MemoryPressure *float64 `json:"memory_waiting_ratio"`
	IOPressure     *float64 `json:"io_waiting_ratio"`
	Processes      *float64 `json:"processes"`
	// Stall is the word for what the task waited for.
	Stall record.Stall `json:"-"`
}

// monotonic returns the seconds of the monotonic clock as a stamp.
func monotonic(seconds float64) procstats.Stamp {
	return procstats.Stamp{Mono: time.Duration(seconds * float64(time.Second))}
}

// pointMoment returns the numbers of a past reading.
func pointMoment(p *apijson.Point) *figures.Moment {
	return new(figures.MomentOfValues(monotonic(p.Mono), p.Run, p.Number))
}

// sampleMoment returns the numbers of a sample.
func sampleMoment(s *client.Sample, run int) *figures.Moment {
	return new(figures.MomentOf(monotonic(s.Mono), run, s.Number, record.HeadlineList(s.Headline)))
}

// usageOf returns the usage of a reading. Rates need the one before it, of the same start; nil for none.
func usageOf(now, before *figures.Moment) usage {
	value := func(q figures.Quantity) *float64 { return figures.Known(now.Value(q)) }
	rate := func(q figures.Quantity) *float64 { return figures.Known(now.Rate(before, q)) }
	return usage{
		Cores: cmp.Or(rate(figures.CPU), value(figures.Cores)), Memory: value(figures.Memory),
		Charged: value(figures.MemoryCharged), Peak: value(figures.MemoryPeak), Limit: value(figures.MemoryLimit),
		Read: rate(figures.Read), Written: rate(figures.Written), Received: rate(figures.Received), Sent: rate(figures.Sent),
		CPUPressure: rate(figures.WaitCPU), MemoryPressure: rate(figures.WaitMemory), IOPressure: rate(figures.WaitIO),
		Processes: value(figures.Processes), Stall: record.StallOf(now.Waits(before)),
	}
}

// coresBetween returns the CPU of a process in cores between two readings of it; nil if unknown.
func coresBetween(before, now figures.Lookup, span time.Duration) *float64 {
	for _, id := range []procstats.ID{procstats.ProcessCPU, procstats.PortableProcessCPU} {
		value, ok := now(id)
		then, known := before(id)
		rate, reason := procstats.CounterReading{Value: value, At: span}.RateSince(procstats.CounterReading{Value: then})
		if ok && known && reason == "" {
			return &rate
		}
	}
	return nil
}

// coresText returns CPU in cores as text.
func coresText(cores *float64) string {
	if cores == nil {
		return procstats.NoValue
	}
	return procstats.CoresText(*cores)
}

// pressureText returns the highest pressure and its resource, or procstats.NoValue.
func pressureText(f usage) string {
	most := greatest(f.CPUPressure, f.MemoryPressure, f.IOPressure)
	if most == nil {
		return procstats.NoValue
	}
	text := procstats.Share.Text(min(*most, 1))
	switch {
	case *most == 0:
		return text
	case most == f.CPUPressure && f.Stall == record.CPUThrottled:
		return text + " throttled"
	case most == f.CPUPressure:
		return text + " cpu"
	case most == f.MemoryPressure:
		return text + " memory"
	}
	return text + " io"
}

// processTree returns live processes as a tree.
func processTree(rows []client.Process) []procstats.Branch[client.Process] {
	return procstats.Tree(rows, func(p *client.Process) (pid, parent int) { return p.PID, p.PPID })
}

// widestCommand is how many columns a command line has in a table at most.
const widestCommand = 120

// indented returns the command of a process, indented by its depth in the tree.
func indented(b procstats.Branch[client.Process]) string {
	return strings.Repeat("  ", b.Depth) + cli.Cut(cli.Printable(b.Process.CommandLine()), widestCommand)
}
