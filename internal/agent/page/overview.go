// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// row is one task in a table.
type row struct {
	task
	Condition condition
	// Last is the last end of a task that runs or will run, with its age; empty before the first.
	Last string
	// Trouble is what is wrong with the task and since when; empty if nothing is. It is Last if that is wrong.
	Trouble          string
	CPU, Read, Write number
	Spark            template.HTML
	Memory           memory
	Pressure         pressure
	// Age is how long the task has run.
	Age duration
	// Stale is how old the newest reading is, if it is older than it should be.
	Stale string
	End   *ending
	// Grouped says that the row stands below a line for its job.
	Grouped bool

	severity int
	read     time.Time
	// sort has the row's numbers in the order of people, by the words of listings; absent ones are below all.
	sort map[string]float64
}

// duration is a time span in words. Stale says that a task's numbers are too old.
type duration struct {
	Text, Hint string
	Stale      bool
}

// sortable are the numbers that rows can be sorted by.
func sortable() []string { return []string{"cpu", "memory", "io", "pressure", "end"} }

// generation is the table of all tasks at one time. It does not change.
type generation struct {
	at      time.Time
	rows    []row
	waiting []waiting
}

// waiting are the allocations of a group that this node cannot run yet.
type waiting struct {
	Job, Group string
	Count      int
	// Reasons quote the job's constraints: they are shown to trusted readers.
	Reasons []string
}

// waitingOf lists the groups of all jobs that wait for a place, by name.
func waitingOf(jobs []*snapshot.Job) (list []waiting) {
	for _, j := range jobs {
		for _, group := range slices.Sorted(maps.Keys(j.Unplaced)) {
			u := j.Unplaced[group]
			list = append(list, waiting{j.ID, group, len(u.Indexes), u.Reasons()})
		}
	}
	return list
}

// number names a generation in the address of a stream.
func (g *generation) number() string { return strconv.FormatInt(g.at.UnixNano(), 36) }

// mostGenerations is how many tables are remembered: a page that has just been loaded opens its stream, which sends
// what has changed since.
const mostGenerations = 8

// shared are the newest tables of tasks, made once for all who look.
type shared struct {
	mu          sync.Mutex // guards following
	generations []*generation
}

// find returns the table with a number; nil if it is not remembered.
func (s *shared) find(number string) *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.generations {
		if g.number() == number {
			return g
		}
	}
	return nil
}

// rows returns a row for every task, at most half an interval old.
func (p *Page) rows(known *snapshot.Agent, now time.Time) *generation {
	s := &p.overview
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.generations); n > 0 {
		if newest := s.generations[n-1]; now.Sub(newest.at) < p.options.Interval/2 && !now.Before(newest.at) {
			return newest
		}
	}
	p.past.begin(now)
	g := &generation{at: now, rows: []row{}, waiting: waitingOf(known.Jobs)}
	for _, t := range tasksOf(known, false) { // all readers share them
		g.rows = append(g.rows, p.row(t, now, known.NotPublishing == ""))
	}
	s.generations = append(s.generations[max(0, len(s.generations)-mostGenerations+1):], g)
	return g
}

func (p *Page) row(t task, now time.Time, published bool) row {
	r := row{task: t, Condition: t.condition()}
	if t.dead() {
		r.End = endingOf(t, p.past.lastRecord(t), false)
		return r
	}
	before, newest, recent := p.past.of(t, now)
	list := t.usage.Headlines
	if t.usage.Sample == nil || !t.usage.Running {
		why := t.absentReason()
		r.sort = map[string]float64{"cpu": -1, "memory": -1, "io": -1, "pressure": -1}
		r.CPU, r.Read, r.Write = absent("cpu_cores", why), absent("io_read_bytes_total", why),
			absent("io_write_bytes_total", why)
		r.Memory, r.Pressure = memory{Needed: absent("memory_bytes", why)}, pressure{Hint: why}
	} else {
		r.read = t.usage.Sample.Wall
		r.CPU = headline(list, procstats.HeadlineCores, procstats.CoresText)
		r.Read = rateNumber(list, procstats.HeadlineIORead, newest.Rate(before, figures.Read))
		r.Write = rateNumber(list, procstats.Writing(list), newest.Rate(before, figures.Written))
		r.Memory = memoryOf(t)
		r.Pressure = pressureSince(recent, &newest)
		r.sort = sortedBy(&newest, before)
	}
	end := t.state.LastEnd()
	r.Last, r.sort["end"] = end.Text(now), -1
	if !end.At.IsZero() {
		r.sort["end"] = float64(end.At.Unix())
	}
	r.Spark = sparkOf(recent, now)
	r.Age = runningFor(t, now)
	if reading := ageOf(t, now); published && t.usage.Running && reading.Stale {
		r.Stale = reading.Text
	}
	r.severity, r.Trouble = r.trouble(end, recent, now)
	return r
}

// runningFor is how long a task has run, to the minute: what changes every second is not worth a look.
func runningFor(t task, now time.Time) duration {
	started := t.state.State.StartedAt
	if started.IsZero() {
		return duration{Text: procstats.NoValue, Hint: "not started yet"}
	}
	d := duration{Text: "<1m", Hint: "started at " + formatTime(started)}
	if age := now.Sub(started); age >= time.Minute {
		d.Text = procstats.AgeText(age.Truncate(time.Minute))
	}
	return d
}

// recently is how long the last end of a task counts as trouble after it has been started again.
const recently = time.Hour

// trouble says what is wrong with a task that runs or will run, and since when: 2 is worse than 1.
func (r *row) trouble(end record.LastEnd, recent []moment, now time.Time) (severity int, why string) {
	switch {
	case end.Problem() && (r.Condition.Word != "running" || now.Sub(end.At).Abs() < recently):
		return 2, r.Last
	case r.Condition.Class == "bad", r.Condition.Class == "warn" && end.Cause != string(hook.CauseOperator):
		return 2, r.Condition.Word
	case r.Memory.Class == "bad":
		return 2, r.Memory.trouble(recent)
	case r.Pressure.Class == "bad":
		return 2, r.Pressure.Word + lasting(recent, func(m, before *moment) bool {
			return string(record.StallOf(m.Waits(before))) == r.Pressure.Word
		})
	case r.Stale != "":
		return 1, "no fresh numbers for " + r.Stale
	case r.Memory.Class == "warn":
		return 1, r.Memory.trouble(recent)
	}
	return 0, ""
}

// trouble says how near its limit a task is, and for how long.
func (m *memory) trouble(recent []moment) string {
	least := map[string]float64{"bad": nearLimit, "warn": towardsLimit}[m.Class]
	return "needs " + m.Share + " of its memory limit" + lasting(recent, func(m, _ *moment) bool {
		return m.Value(figures.Memory) >= least*m.Value(figures.MemoryLimit)
	})
}

// lasting says for how long something has held, as far back as the recent moments go.
func lasting(recent []moment, holds func(m, before *moment) bool) string {
	first := len(recent) - 1
	for first > 0 && holds(&recent[first], &recent[first-1]) {
		first--
	}
	if first < 0 || first == len(recent)-1 {
		return ""
	}
	text := procstats.AgeText(recent[len(recent)-1].Wall.Sub(recent[first].Wall).Truncate(time.Minute))
	switch {
	case first == 0 && text != "0 s":
		return " for at least " + text
	case text == "0 s":
		return " for less than 1m"
	}
	return " for " + text
}

// ageOf is how old a task's numbers are.
func ageOf(t task, now time.Time) duration {
	if t.usage.Sample == nil {
		return duration{Text: procstats.NoValue, Hint: t.absentReason(), Stale: true}
	}
	d := max(0, now.Sub(t.usage.Sample.Wall))
	limit := max(5*time.Second, 3*t.usage.Interval)
	a := duration{Text: procstats.AgeText(d), Hint: "since the newest reading", Stale: d > limit || t.usage.Reason != ""}
	if t.usage.Reason != "" {
		a.Hint += ": " + t.usage.Reason
	}
	if t.usage.Backlogged > 0 {
		a.Hint += "; readings that came late: " + procstats.None.Text(float64(t.usage.Backlogged))
	}
	if t.usage.HistoryDropped > 0 {
		a.Hint += "; readings not in the history, because the disk was too slow: " +
			procstats.None.Text(float64(t.usage.HistoryDropped))
	}
	return a
}

// sortedBy returns the numbers that rows are sorted by. A sum with an absent number is absent; the largest ignores it.
func sortedBy(newest, before *moment) map[string]float64 {
	known := func(value float64) float64 {
		if math.IsNaN(value) {
			return -1
		}
		return value
	}
	rate := func(q figures.Quantity) float64 { return newest.Rate(before, q) }
	return map[string]float64{
		"cpu": known(newest.Value(figures.Cores)), "memory": known(newest.Value(figures.Memory)),
		"io":       known(rate(figures.Read) + rate(figures.Written)),
		"pressure": max(known(rate(figures.WaitCPU)), known(rate(figures.WaitMemory)), known(rate(figures.WaitIO))),
	}
}

// rateNumber is the rate of a headline that is a counter.
func rateNumber(list []procstats.HeadlineValue, id procstats.ID, rate float64) number {
	n := headline(list, id, procstats.Bytes.Text)
	switch {
	case n.Absent && !n.vacuous:
		return n
	case math.IsNaN(rate):
		return absent(n.Name, "a rate needs an earlier reading")
	case n.vacuous || n.guarantee.Vacuous(rate):
		return vacuous(n.Name)
	}
	n.Text = procstats.BytesPerSecond.Text(rate)
	return n
}
