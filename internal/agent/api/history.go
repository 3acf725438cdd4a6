// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/shape"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// mostPoints is about how many readings of a task an answer has, unless a trusted request names its step.
const mostPoints = 2000

// history is GET /v1/client/allocation/ID/stats/history?since=&until=&step=&task=&process=&measurements=, or with ?at=
// the one reading nearest to a time. Times are RFC 3339, seconds since the epoch, or a duration ago, such as 5m.
func (s *Server) history(r *http.Request, now *snapshot.Agent, a *allocation.Allocation) (any, error) {
	task := r.URL.Query().Get("task")
	if err := checkTask(a, task); err != nil {
		return nil, err
	}
	wanted, err := wantedMeasurements(r)
	if err != nil {
		return nil, err
	}
	tasks := slices.Sorted(maps.Keys(a.Tasks))
	if task != "" {
		tasks = []string{task}
	}
	if r.URL.Query().Has("at") {
		return s.at(r, a, tasks, wanted)
	}
	query, err := historyQuery(r, s.now())
	if err != nil {
		return nil, err
	}
	if query.Step == 0 || !Trusted(r.Context()) {
		query.Most = mostPoints
	}
	_, end, err := s.begin(r, streams.Trusted)
	if err != nil {
		return nil, err
	}
	defer end()
	shown := shape.History{
		AllocID: a.ID, IntervalSeconds: now.Config.History.Interval.Seconds(), Tasks: map[string][]shape.Point{},
		Absent: map[string]map[string]string{},
	}
	process := processOf(r)
	query.Processes = process != ""
	var known processNames
	for _, name := range tasks {
		points, err := s.agent.History(a.ID, name, query)
		if err != nil {
			return nil, err
		}
		shown.Tasks[name] = make([]shape.Point, 0, len(points))
		for i := range points {
			known.addPoint(&points[i])
			shown.Tasks[name] = append(shown.Tasks[name], newPoint(&points[i], process, wanted))
		}
		shown.Absent[name] = absentOf(now.Usage(a.Tasks[name]).Sample, wanted, r.URL.Query().Get("measurements") != "")
	}
	return shown, known.check(process)
}

// at answers with the reading of each task that is nearest to a time.
func (s *Server) at(r *http.Request, a *allocation.Allocation, tasks []string, wanted func(procstats.ID) bool) (any, error) {
	p := paramsOf(r)
	at := p.time("at", s.now())
	switch {
	case p.err != nil:
		return nil, p.err
	case at.IsZero():
		return nil, badRequest(`invalid at "": must be a time: ` + timeForms)
	}
	shown := shape.Moment{AllocID: a.ID, Asked: at, Tasks: map[string]*shape.Point{}}
	process := processOf(r)
	var known processNames
	for _, name := range tasks {
		points, err := s.agent.History(a.ID, name, series.Query{Nearest: at, Processes: true})
		if err != nil {
			return nil, err
		}
		shown.Tasks[name] = nil // a task without history beside one that has some
		if len(points) > 0 {
			known.addPoint(&points[0])
			p := newPoint(&points[0], process, wanted)
			shown.Tasks[name] = &p
		}
	}
	return shown, known.check(process)
}

// newPoint returns a point with its processes, or those with a name.
func newPoint(p *series.Point, process string, wanted func(procstats.ID) bool) shape.Point {
	shown := shape.Point{At: p.Wall, Mono: p.Mono.Seconds(), Run: p.Run}
	if p.Gap != series.NoGap {
		shown.Gap = p.Gap.String()
		return shown
	}
	shown.Measurements = make(map[string]float64, len(p.Values))
	for id, v := range p.Values {
		if wanted(id) && !math.IsNaN(v) && !math.IsInf(v, 0) {
			shown.Measurements[id.String()] = v
		}
	}
	rows := p.Processes
	if process != "" {
		rows = named(rows, process)
	}
	if p.Processes != nil {
		shown.Processes = make([]shape.PointProcess, len(rows))
	}
	for i := range rows {
		shown.Processes[i] = newPointProcess(&rows[i])
	}
	return shown
}

func newPointProcess(row *procstats.ProcessRow) shape.PointProcess {
	shown := shape.PointProcess{
		PID: row.PID, Start: row.Start, PPID: row.PPID, Command: row.Command, Measurements: map[string]float64{},
	}
	for _, reading := range row.Readings {
		if v, ok := reading.Number(); ok {
			shown.Measurements[reading.ID().String()] = v
		}
	}
	return shown
}

// notSelected is why a measurement is not in the readings of a task.
const notSelected = "not selected; with the driver tacho, add it to measurements in the config of the task"

// absentOf says why a sample, which may be nil, has no value for what is wanted. If that was named, it says so too of what
// is not in the sample at all.
func absentOf(s *procstats.Sample, wanted func(procstats.ID) bool, named bool) map[string]string {
	absent := map[string]string{}
	if s == nil {
		return absent
	}
	for _, m := range procstats.Table() {
		r, found := s.Task.Get(m.ID)
		switch {
		case !wanted(m.ID) || m.Scope != procstats.TaskScope || r.Present():
		case found:
			absent[m.Name] = r.Reason()
		case named:
			absent[m.Name] = notSelected
		}
	}
	return absent
}

// wantedMeasurements reads ?measurements=, a list of names and groups; none is all.
func wantedMeasurements(r *http.Request) (func(procstats.ID) bool, error) {
	text := r.URL.Query().Get("measurements")
	if text == "" {
		return func(procstats.ID) bool { return true }, nil
	}
	headlines := map[procstats.ID]bool{}
	rest := []string{}
	for name := range strings.SplitSeq(text, ",") {
		if m, ok := procstats.LookupName(name); ok && m.Scope == procstats.HeadlineScope {
			headlines[m.ID] = true // a selection would take it for what it is taken from
		} else {
			rest = append(rest, name)
		}
	}
	selection := procstats.Selection{}
	if len(rest) > 0 {
		var err error
		if selection, err = procstats.ParseSelection(strings.Join(rest, ",")); err != nil {
			return nil, badRequest(err.Error())
		}
	}
	return func(id procstats.ID) bool { return headlines[id] || selection.Has(id) }, nil
}

func historyQuery(r *http.Request, now time.Time) (series.Query, error) {
	p := paramsOf(r)
	q := series.Query{Since: p.time("since", now), Until: p.time("until", now), Step: p.duration("step", 0)}
	if p.err == nil && !q.Since.IsZero() && !q.Until.IsZero() && q.Until.Before(q.Since) {
		p.err = badRequest("until is before since")
	}
	return q, p.err
}

// record is GET /v1/client/allocation/ID/record?task=: the final record of the task's last ended start.
func (s *Server) record(r *http.Request, _ *snapshot.Agent, a *allocation.Allocation) (any, error) {
	task, err := onlyTask(r, a)
	if err != nil {
		return nil, err
	}
	rec, err := s.agent.Record(a.ID, task)
	if err != nil {
		return nil, err
	}
	if !Trusted(r.Context()) {
		rec = rec.Redacted()
	}
	return rec, nil
}

// commands is GET /v1/client/allocation/ID/commands?task=: what the ended processes of a task used, by command; so far if it runs.
func (s *Server) commands(r *http.Request, _ *snapshot.Agent, a *allocation.Allocation) (any, error) {
	task, err := onlyTask(r, a)
	if err != nil {
		return nil, err
	}
	return s.agent.Commands(a.ID, task)
}
