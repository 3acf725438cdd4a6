// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

// topOptions are the flags of tacho top.
type topOptions struct {
	delay      time.Duration
	iterations int
	sort       *cli.Choice
	filter     string
	output     *outputFlags
}

// Bounds of --delay; the agent reads no more often than the first.
const (
	shortestDelay = 200 * time.Millisecond
	longestDelay  = 60 * time.Second
)

func newTop() *cobra.Command {
	cmd := cli.Described(help, "top")
	o := &topOptions{sort: cli.AddChoice(cmd, "sort", "sort by", sortWords()...), output: addOutputFlags(cmd)}
	f := cmd.Flags()
	o.delay = 2 * time.Second
	f.VarP(cli.Duration(&o.delay), "delay", "d", "time between updates")
	f.VarP(cli.Number(&o.iterations, 1, math.MaxInt), "iterations", "n", "print `N` tables and exit, also on a terminal")
	f.StringVar(&o.filter, "filter", "", "show only tasks whose name contains this `TEXT`")
	return withAgent(cmd, nil, untilInterrupted(func(c *call) error {
		if o.delay < shortestDelay || o.delay > longestDelay {
			return cli.Usagef("--delay %s: must be between %s and %s", o.delay, shortestDelay, longestDelay)
		}
		m := &topModel{palette: c.palette, delay: o.delay, sort: o.sort.String(), filter: o.filter}
		poll := &taskPoll{agent: c.Client}
		in := c.cmd.InOrStdin()
		if o.iterations == 0 && !o.output.set() && cli.IsTerminal(in) && cli.CanDraw(c.out) {
			return runTopScreen(c.ctx, m, poll, in, c.out)
		}
		return o.print(c, m, poll)
	}))
}

// print prints tables without control of the terminal. Rates need two readings.
func (o *topOptions) print(c *call, m *topModel, poll *taskPoll) error {
	if _, err := poll.read(c.ctx, "", false); err != nil {
		return err
	}
	for n := range max(1, o.iterations) {
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(o.delay):
		}
		rows, err := poll.read(c.ctx, "", false)
		m.update(rows, nil)
		answer := client.Answer[[]*topRow]{Value: m.visible()}
		if err == nil {
			answer.JSON, err = json.Marshal(answer.Value)
		}
		err = show(c, o.output, answer, err, func(b *cli.Sheet, _ *[]*topRow) {
			if n > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(m.table(false, b.Columns).Render(b.Palette))
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 && !o.output.set() {
			cli.PrintError(c.cmd.ErrOrStderr(), errors.New(poll.none))
		}
	}
	return nil
}

// topRow is one task of one allocation, also in the JSON of tacho top. Null is not measured.
type topRow struct {
	Alloc string `json:"alloc_id"`
	Name  string `json:"name"`
	Job   string `json:"job"`
	Task  string `json:"task"`
	// State is pending, running, ended or failed.
	State string `json:"state"`
	// Outcome is how the task ended; empty while it runs, or if unknown.
	Outcome record.Outcome `json:"outcome,omitempty"`
	// Cause is on whose account it does not run, if not on its own.
	Cause    string `json:"cause,omitempty"`
	Restarts int    `json:"restarts"`
	// LastEnd is how the task last ended, also while it runs again; nil before that.
	LastEnd *record.LastEnd `json:"last_end,omitempty"`
	// Reason is why there are no measurements.
	Reason string `json:"reason,omitempty"`
	usage
	// past has the last readings of CPU in cores, oldest first; nil for a missing one.
	past []*float64
	// sample is the last reading, earlierSet the newest one of the same start of the task with another set of
	// processes. Either may be nil.
	sample, earlierSet *client.Sample
	// commands are the processes that have ended, of the task whose page is shown; otherwise nil.
	commands *record.Commands
	// output is the end of what the task wrote, if that is shown; otherwise nil.
	output []string
}

func (r *topRow) key() string { return r.Alloc + "/" + r.Task }

// title returns the name of the task with its allocation.
func (r *topRow) title() string { return r.Name + "/" + r.Task }

// taskPoll polls the usage of all tasks.
type taskPoll struct {
	agent *client.Client
	// known has the rows of the last poll, by key.
	known map[string]*topRow
	// none says why the last poll found no task.
	none string
}

// pastReadings is the number of readings for the sparkline.
const pastReadings = 120

// read returns the tasks of all allocations, except those that ended some time ago. opened is the key of the task whose
// page is shown, with its output if logs is set; empty for none.
func (p *taskPoll) read(ctx context.Context, opened string, logs bool) ([]*topRow, error) {
	all, err := p.agent.Allocations(ctx, "")
	if err != nil {
		return nil, err
	}
	readings, err := p.agent.AllStats(ctx)
	if err != nil {
		return nil, err
	}
	var rows []*topRow
	known := make(map[string]*topRow, len(p.known))
	for _, a := range all.Value {
		if a.Ended() && !endedLately(&a) {
			continue
		}
		for _, task := range slices.Sorted(maps.Keys(a.TaskStates)) {
			row := p.row(&a, task, readings.Value[a.ID])
			known[row.key()] = row
			rows = append(rows, row)
		}
	}
	if p.known = known; len(rows) == 0 {
		p.none = "no tasks"
		if self, err := p.agent.Self(ctx); err == nil && self.Value.Tacho.Reason != "" {
			p.none += "; " + self.Value.Tacho.Reason
		}
	}
	if row := known[opened]; row != nil {
		if c, err := p.agent.Commands(ctx, row.Alloc, row.Task); err == nil { // otherwise they are not counted
			row.commands = &c.Value
		}
		if logs {
			row.output = p.output(ctx, row)
		}
	}
	return rows, nil
}

// output returns the end of what a task wrote.
func (p *taskPoll) output(ctx context.Context, row *topRow) (lines []string) {
	const most = 32 << 10
	for _, stream := range []string{"stdout", "stderr"} {
		lines = append(lines, stream)
		q := client.LogQuery{Task: row.Task, Stream: stream, FromEnd: true, Offset: most}
		log, err := p.agent.Logs(ctx, row.Alloc, q)
		var text []byte
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(log, most))
			_ = log.Close() // it was read
		}
		for line := range strings.Lines(string(text)) {
			lines = append(lines, "  "+cli.Printable(strings.TrimRight(line, "\r\n")))
		}
		if err != nil {
			lines = append(lines, "  "+cli.OneLine(err.Error()))
		}
	}
	return lines
}

// endedLately reports whether an ended allocation is still shown.
func endedLately(a *apijson.Allocation) bool {
	const lately = 30 * time.Second
	return time.Since(time.Unix(0, a.ModifyTime)).Abs() < lately
}

// row returns the row of a task.
func (p *taskPoll) row(a *apijson.Allocation, task string, stats *client.Stats) *topRow {
	s := a.TaskStates[task]
	row := &topRow{
		Alloc: a.ID, Name: a.Name, Job: a.JobID, Task: task, State: stateWord(s), Cause: causeWord(s), Restarts: s.Restarts,
		LastEnd: s.Tacho.LastEnd,
	}
	if s.State == "dead" {
		row.Outcome = s.Tacho.Outcome
	}
	old := p.known[row.key()]
	if old != nil {
		row.past = old.past
	}
	var reading *client.Reading
	switch {
	case stats != nil:
		reading = stats.Tacho.Tasks[task]
		row.Reason = stats.Tacho.Reason
	case a.Ended():
		row.Reason = "not running"
	}
	if reading != nil && reading.Reason != "" {
		row.Reason = reading.Reason
	}
	if reading == nil || reading.Sample == nil || !reading.Running || reading.Reason != "" { // old readings are not shown
		row.past = remember(row.past, nil)
		return row
	}
	row.sample = reading.Sample
	switch {
	case old == nil || old.sample == nil || old.Restarts != row.Restarts:
		row.usage = usageOf(sampleMoment(row.sample, row.Restarts), nil)
	case old.sample.At.Equal(row.sample.At):
		row.earlierSet, row.usage = old.earlierSet, old.usage // no new reading
		return row
	default:
		row.earlierSet = old.sample
		if sameSet(row.sample, old.sample) {
			row.earlierSet = old.earlierSet
		}
		row.usage = usageOf(sampleMoment(row.sample, row.Restarts), sampleMoment(old.sample, old.Restarts))
	}
	row.past = remember(row.past, row.Cores)
	return row
}

func remember(past []*float64, value *float64) []*float64 {
	past = append(slices.Clone(past), value)
	return past[max(0, len(past)-pastReadings):]
}

// word returns the state, or the outcome if the task has ended, and on whose account.
func (r *topRow) word() string {
	end := record.LastEnd{Outcome: cmp.Or(r.Outcome, record.Outcome(r.State)), Cause: r.Cause}
	return end.Word()
}

// last returns the number of restarts and the last end with its age; empty for a task that has not ended.
func (r *topRow) last(now time.Time) string {
	end := record.LastEnd{}
	if r.LastEnd != nil {
		end = *r.LastEnd
	}
	return record.Join(" ", restartsText(r.Restarts), end.Text(now))
}

// sameSet reports whether two readings have the same set of processes, which are not read for each.
func sameSet(a, b *client.Sample) bool {
	return a.Processes != nil && b.Processes != nil && !a.Processes.At.IsZero() && a.Processes.At.Equal(b.Processes.At)
}

// setAge is how long before a reading its processes were read; 0 if the agent does not say.
func setAge(s *client.Sample) time.Duration {
	if s.Processes.At.IsZero() {
		return 0
	}
	return max(0, s.At.Sub(s.Processes.At))
}

// processCores returns the CPU of a process in cores since it was last read; nil if unknown.
func processCores(row *topRow, process *client.Process) *float64 {
	if row.sample == nil || row.earlierSet == nil || row.earlierSet.Processes == nil {
		return nil
	}
	old := sameProcess(row.earlierSet.Processes.Rows, process)
	if old == nil {
		return nil
	}
	span := monotonic(row.sample.Mono-row.earlierSet.Mono).Mono - setAge(row.sample) + setAge(row.earlierSet)
	return coresBetween(old.Number, process.Number, span)
}
