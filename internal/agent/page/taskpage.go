// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// taskView is the page of one task.
type taskView struct {
	task
	nowView
	pastView
	Condition   condition
	Description string
	Started, Up string
	// Last is the last end of a task that has no record of it.
	Last string
	// Reason says why there are no fresh numbers.
	Reason     string
	Limits     []limitRow
	Attributes map[string]string
	Events     []eventRow
	End        *ending
	Logs       []logTail
	// Advice is what to ask for, from the ends of this task in all allocations of its job; nil if there are none.
	Advice []string
	// Acts says that there is something to do, for readers who may.
	Acts bool
}

// nowView is the newest reading of a running task.
type nowView struct {
	// Read says that there is one.
	Read bool
	// The totals are since the start, the others a second.
	CPU, CPUTotal, Reads, ReadTotal, Writes, Receives, Received, Sent number
	// Written says what became of what the task wrote.
	Written string
	// Selected is what was selected in addition to the default.
	Selected []figure
	Age      duration
	Memory   memory
	Pressure pressure
	// Notes say which readings contradict the numbers at the top, and why.
	Notes        []string
	Processes    *processTable
	Commands     *commandTable
	Measurements []fact
	// at is when it was taken: pages with the same one show the same numbers.
	at string
}

// pastView is the time that the charts show.
type pastView struct {
	Window window
	Spans  []span
	// Others are the tasks that can be drawn beside this one.
	Others []choice
	// Moves lead to the time around it.
	Moves  []choice
	Charts []drawnChart
	Step   string
	// Happened are the newest gaps, restarts and OOM kills in words, Earlier counts the others.
	Happened []happening
	Earlier  int
}

// figure is one more of the numbers at the top.
type figure struct {
	Key, Label string
	Value      number
	Detail     string
}

// eventRow is an event of the task.
type eventRow struct {
	When    time.Time
	Type    string
	Message string
	Class   string
}

// mostPoints bounds the points in a chart.
const mostPoints = 300

// taskPage fills the page of one task.
func (p *Page) taskPage(v *view) error {
	t, err := find(v.request, v.now, v.Trusted)
	if err != nil {
		return err
	}
	body := p.taskView(t, v)
	v.Title, v.Template, v.Body = t.Name()+" · "+t.Job(), "task", body
	v.Shape = body.shape()
	values := url.Values{"at": {body.at}}
	for _, name := range []string{"span", "until", "with"} {
		if value := v.request.URL.Query().Get(name); value != "" {
			values.Set(name, value)
		}
	}
	v.Live = "/page/stream" + t.Path() + "?" + values.Encode()
	return nil
}

func (p *Page) taskView(t task, v *view) *taskView {
	now, s := v.Now, t.state.State
	body := &taskView{
		task: t, Condition: t.condition(), Started: formatTime(s.StartedAt), Limits: limitsOf(t),
		nowView: nowView{Age: ageOf(t, now)},
	}
	if s.Phase == hook.PhaseRunning && v.Notice == "" { // it says so once, above
		body.Reason = t.usage.Reason
	}
	if !s.StartedAt.IsZero() && s.Phase == hook.PhaseRunning {
		body.Up = procstats.AgeText(now.Sub(s.StartedAt))
	}
	until := now
	if t.dead() && !s.FinishedAt.IsZero() {
		until = s.FinishedAt
	}
	if t.usage.Look != nil {
		t.usage.Look()
	}
	f := p.charts(t, body, until, v)
	if sample := t.usage.Sample; sample != nil && t.usage.Running && !t.dead() {
		body.Read, body.at = true, strconv.FormatInt(int64(sample.Mono), 36)
		p.readings(t, body, f)
		body.Processes = processesOf(sample)
		body.Commands = p.commands(t)
		guarantees := procstats.Guarantees(sample, t.usage.Headlines)
		for _, r := range sample.Task {
			name := r.ID().String()
			body.Measurements = append(body.Measurements, fact{Name: name, Value: readingAs(sample, r, guarantees[name])})
		}
	}
	body.End, body.Advice = p.ended(t, v.Trusted), p.advice(v.now, t)
	switch end := body.End; {
	case end == nil && !t.dead():
		body.Last = t.state.LastEnd().Text(now)
	case end != nil && t.dead():
		end.Title = "Ended " + record.Ago(now.Sub(end.EndedAt))
	case end != nil:
		end.Title = "Last end, " + record.Ago(now.Sub(end.EndedAt))
	}
	events, attributes := t.state.Details()
	body.Events = eventsOf(events, v.Trusted)
	body.Acts = v.Trusted && !t.dead() && t.allocation.JobType != allocation.Watch
	if v.Trusted {
		body.Attributes, body.Logs = attributes, p.logs(t)
		if s.Phase != hook.PhaseRunning { // of one that runs it says just that
			body.Description = t.allocation.Description
		}
	}
	return body
}

// readings fills the numbers at the top.
func (p *Page) readings(t task, body *taskView, f *frame) {
	list := t.usage.Headlines
	var newest moment
	var before *moment
	if n := len(f.moments); n > 1 {
		newest = f.moments[n-1]
		before = rateBase(f.moments[:n-1], &newest)
	}
	body.Memory, body.Pressure = memoryOf(t), pressureSince(f.moments, &newest)
	rate := func(id procstats.ID, q figures.Quantity) number { return rateNumber(list, id, newest.Rate(before, q)) }
	total := func(id procstats.ID) number { return headline(list, id, procstats.Bytes.Text) }
	body.CPU = headline(list, procstats.HeadlineCores, procstats.Cores.Text)
	body.CPUTotal = headline(list, procstats.HeadlineCPU, procstats.Seconds.Text)
	body.Reads, body.ReadTotal = rate(procstats.HeadlineIORead, figures.Read), total(procstats.HeadlineIORead)
	body.Writes = rate(procstats.Writing(list), figures.Written)
	body.Written = writtenDetail(procstats.WrittenOf(t.usage.Sample, list))
	body.Receives = rate(procstats.HeadlineNetworkReceived, figures.Received)
	body.Received, body.Sent = total(procstats.HeadlineNetworkReceived), total(procstats.HeadlineNetworkSent)
	body.Selected = selectedFigures(t.usage.Sample)
	body.Pressure.Throttling = record.Throttling(t.usage.Sample.Task.Number)
	body.Notes = record.Contradictions(record.Headlines(list))
}

// writtenDetail says what became of what the task wrote.
func writtenDetail(w procstats.Written) string {
	written, since := w.Text()
	switch {
	case written == "":
		return ""
	case since != "":
		return written + ", " + since
	}
	return written + " since the start"
}

// selectedFigures are those of what was selected in addition to the default; also if it is absent, with the reason.
func selectedFigures(s *procstats.Sample) (figures []figure) {
	guarantees := procstats.Guarantees(s, nil)
	add := func(id procstats.ID, key, label, detail string) {
		if r, selected := s.Task.Get(id); selected {
			value := readingAs(s, r, guarantees[id.String()])
			figures = append(figures, figure{Key: key, Label: label, Value: value, Detail: cmp.Or(r.Reason(), detail)})
		}
	}
	add(procstats.SmapsPSS, "pss", "Memory, proportional", "shared pages divided among their users")
	files, _ := s.Task.Number(procstats.DiskFiles)
	detail := procstats.None.Text(files) + " files and directories"
	if walk, ok := s.Task.Text(procstats.DiskWalk); ok && walk != procstats.WalkComplete {
		began, _ := s.Task.Number(procstats.DiskWalkStart)
		detail += "; walk " + walk + ", began " + procstats.Time.Text(began)
	}
	add(procstats.DiskUsage, "disk", "Directory", detail)
	return figures
}

// charts draws the history of a task and says what happened in it.
func (p *Page) charts(t task, body *taskView, latest time.Time, v *view) *frame {
	body.Spans = spansOf(t, latest, p.options.HistorySpan)
	longest := body.Spans[len(body.Spans)-1].size
	s := windowOf(body.Spans, v.request.URL.Query(), t.born(), latest)
	until := s.until
	body.Window = s
	for i := range body.Spans {
		at := latest
		if s.fixed {
			at = until
		}
		body.Spans[i].Link = window{span: body.Spans[i], latest: latest, with: s.with}.link(t.Path(), body.Spans[i].size, at)
	}
	body.Moves = s.moves(t.Path(), longest)
	interval := max(p.options.Interval, p.options.HistoryInterval)
	step := max(interval, (s.size / mostPoints).Truncate(time.Second))
	query := series.Query{
		Since: until.Add(-s.size - 2*step), Until: until.Add(time.Minute), Step: step,
		Highest: []procstats.ID{procstats.HeadlineMemory, procstats.HeadlineMemoryCharged},
	}
	var other task
	body.Others, other = othersOf(t, v.now, s.with)
	points, err := p.agent.History(t.allocation.ID, t.state.Name, query)
	if err != nil && !errors.Is(err, allocation.ErrNotFound) {
		p.log.Warn("read history", "allocation", t.allocation.ID, "task", t.state.Name, "error", err)
	}
	if errors.Is(err, series.ErrBlocked) && body.Reason == "" {
		body.Reason = "no history: " + series.ErrBlocked.Error()
	}
	moments := momentsOf(points)
	if sample := t.usage.Sample; sample != nil && t.usage.Running && !t.dead() && !s.fixed {
		if n := len(moments); n == 0 || sample.Wall.After(moments[n-1].Wall) { // the history does not have it yet
			moments = append(moments, liveMoment(t.usage, moments))
		}
	}
	f := newFrame(until.Add(-s.size), until, moments)
	if other.state != nil {
		beside, _ := p.agent.History(other.allocation.ID, other.state.Name, query) // without a history it has no line
		f.other, f.otherName = momentsOf(beside), other.Name()
		f.apart = 2 * step
	}
	const mostTicks = 6
	f.axis.Ticks = chart.ClockTicks(f.axis.Since.Local(), until, mostTicks)
	body.Step = "Each point stands for " + procstats.Seconds.Text(step.Seconds()) + ": memory is the highest reading in it"
	body.Happened, body.Earlier = f.happened(t)
	body.Charts = f.charts()
	reads, writes := procstats.HeadlineIORead, procstats.Writing(t.usage.Headlines)
	if body.Charts != nil && !f.counted(figures.Read) && !f.counted(figures.Written) &&
		headline(t.usage.Headlines, reads, procstats.Bytes.Text).vacuous &&
		headline(t.usage.Headlines, writes, procstats.Bytes.Text).vacuous { // zeros would stand for what is not known
		body.Charts = slices.DeleteFunc(body.Charts, func(c drawnChart) bool { return c.Key == "chart-io" })
	}
	return f
}

// mostOthers bounds the tasks that can be chosen to be drawn beside another.
const mostOthers = 50

// othersOf lists the tasks that can be drawn beside one, those of its job first, and returns the chosen one.
func othersOf(t task, now *snapshot.Agent, chosen string) (list []choice, other task) {
	all := slices.DeleteFunc(tasksOf(now, false), func(o task) bool { return o.Key() == t.Key() })
	slices.SortStableFunc(all, func(a, b task) int {
		kin := func(o task) int {
			if o.Key() == chosen {
				return 0
			} else if o.Job() == t.Job() {
				return 1
			}
			return 2
		}
		return cmp.Compare(kin(a), kin(b))
	})
	for i := range all[:min(len(all), mostOthers)] {
		o := &all[i]
		label := o.Name() + " · " + o.Job() + " " + o.Group() + "[" + strconv.Itoa(o.Index()) + "] " + o.Allocation()
		list = append(list, choice{Key: o.Key(), Label: label, On: o.Key() == chosen})
		if o.Key() == chosen {
			other = *o
		}
	}
	return list, other
}

// shape tells pages with other parts apart.
func (b *taskView) shape() string {
	return digest([]string{
		b.Condition.Word, b.Started, fmt.Sprint(b.Events, b.Read, b.End != nil, b.Restarts(), len(b.Measurements),
			b.Received.Absent, len(b.Selected), len(b.Charts)),
	})
}

// task is one task with what it uses.
type task struct {
	allocation *allocation.Allocation
	state      *allocation.Task
	usage      *figures.Figures
}

// tasksOf returns every task, in order of names.
func tasksOf(now *snapshot.Agent, trusted bool) []task {
	all := make([]task, 0, len(now.Usages))
	for _, a := range now.Allocations {
		for _, name := range slices.Sorted(maps.Keys(a.Tasks)) {
			all = append(all, taskOf(now, a, name, trusted))
		}
	}
	return all
}

func taskOf(now *snapshot.Agent, a *allocation.Allocation, name string, trusted bool) task {
	return task{a, a.Tasks[name], now.UsageFor(a.Tasks[name], trusted)}
}

// find returns the one task that a path names.
func find(r *http.Request, now *snapshot.Agent, trusted bool) (task, error) {
	a, err := now.Allocation(r.PathValue("id"))
	if err != nil {
		return task{}, err
	}
	name := r.PathValue("task")
	if a.Tasks[name] == nil {
		return task{}, allocation.NoTask(a.ID, name, slices.Collect(maps.Keys(a.Tasks)))
	}
	return taskOf(now, a, name, trusted), nil
}

// allocation redirects to the only task of an allocation, or to the list of its tasks.
func (p *Page) allocation(w http.ResponseWriter, r *http.Request) {
	a, err := p.agent.Snapshot().Allocation(r.PathValue("id"))
	if err != nil {
		p.serve(false, func(*view) error { return err })(w, r)
		return
	}
	target := "/?q=" + url.QueryEscape(a.ID)
	for name := range a.Tasks {
		if len(a.Tasks) == 1 {
			target = taskPath(a.ID, name)
		}
	}
	http.Redirect(w, r, target, http.StatusFound)
}

// What templates show of a task.

func (t task) Name() string       { return t.state.Name }
func (t task) Driver() string     { return t.state.Driver }
func (t task) Restarts() int      { return t.state.State.Restarts }
func (t task) Job() string        { return t.allocation.JobID }
func (t task) Group() string      { return t.allocation.Group }
func (t task) Index() int         { return t.allocation.Index }
func (t task) ID() string         { return t.allocation.ID }
func (t task) Allocation() string { return allocation.ShortID(t.allocation.ID) }

// Path is the task's page.
func (t task) Path() string { return taskPath(t.ID(), t.Name()) }

func taskPath(id, name string) string {
	return "/alloc/" + url.PathEscape(id) + "/" + url.PathEscape(name)
}

// Key names the task in the elements of a page; ids are UUIDs, names are anything.
func (t task) Key() string { return t.ID() + "/" + t.Name() }

// dead reports whether the task will not run again.
func (t task) dead() bool { return t.state.State.Phase == hook.PhaseDead }

// condition is a task's state in a word, with the class of its colour and a sentence.
type condition struct{ Word, Class, Hint string }

func (t task) condition() condition {
	s := t.state.State
	switch {
	case s.Phase == hook.PhaseRunning:
		return condition{"running", "good", "since " + formatTime(s.StartedAt)}
	case s.Phase == hook.PhasePending && s.Exit != nil && !s.RestartAt.IsZero():
		return condition{"waiting to restart", "warn", "the next start is due at " + formatTime(s.RestartAt)}
	case s.Phase == hook.PhasePending:
		return condition{"pending", "quiet", "not started yet"}
	case s.Exit != nil && t.state.Outcome != "":
		hint := "ended at " + formatTime(s.FinishedAt)
		if !s.Exit.Successful() {
			hint = exitText(s.Exit)
		}
		return condition{t.state.Outcome.Text(), outcomeClass(t.state.Outcome), hint}
	case s.Failed && s.Exit == nil:
		return condition{"never ran", "bad", "the task could not be started"}
	case s.Failed:
		return condition{"failed", "bad", exitText(s.Exit)}
	case s.Exit != nil && !s.Exit.Successful():
		return condition{"ended", "quiet", exitText(s.Exit)}
	}
	return condition{"complete", "quiet", "ended at " + formatTime(s.FinishedAt)}
}

// exitText says how a task ended, in numbers: why an end was not seen is for trusted readers.
func exitText(e *hook.Exit) string {
	text := e.String()
	if e.Lost != "" {
		text = "the end was not observed"
	}
	return text + record.CauseNote(string(e.Cause))
}

// absentReason says why a task has no numbers.
func (t task) absentReason() string { return cmp.Or(t.usage.Reason, "not read yet") }
