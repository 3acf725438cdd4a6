// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"math"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// mostPoints is about how many readings of a task a response has, unless a trusted caller gives a step.
const mostPoints = 2000

// history returns the stored readings of tasks, or with ?at= the one nearest to a time.
func (s *Server) history(q *request, a *allocation.Allocation) (any, error) {
	tasks, err := q.tasksOf(a)
	if err != nil {
		return nil, err
	}
	wanted, err := q.measurements()
	if err != nil {
		return nil, err
	}
	query, err := q.historyQuery(s.now())
	if err != nil {
		return nil, err
	}
	_, end, err := s.begin(q, streams.Trusted)
	if err != nil {
		return nil, err
	}
	defer end()
	shown := apijson.History{
		AllocID: a.ID, IntervalSeconds: q.now.Config.History.Interval.Seconds(), Tasks: map[string][]apijson.Point{},
		Absent: map[string]map[string]string{},
	}
	nearest := apijson.Moment{AllocID: a.ID, Asked: query.Nearest, Tasks: map[string]*apijson.Point{}}
	var read [][]procstats.ProcessRow
	for _, name := range tasks {
		points, err := s.agent.History(a.ID, name, query)
		if err != nil {
			return nil, err
		}
		list := make([]apijson.Point, len(points))
		for i := range points {
			if points[i].Gap == series.NoGap {
				read = append(read, points[i].Processes)
			}
			list[i] = newPoint(&points[i], q.process(), wanted)
		}
		nearest.Tasks[name] = nil // a task without history beside one with
		if len(list) > 0 {
			nearest.Tasks[name] = &list[0]
		}
		shown.Tasks[name] = list
		shown.Absent[name] = absentOf(q.now.Usage(a.Tasks[name]).Sample, wanted, q.values.Get("measurements") != "")
	}
	if !query.Nearest.IsZero() {
		return nearest, q.checkProcess(read)
	}
	return shown, q.checkProcess(read)
}

// newPoint returns a point with its processes, or those of one name.
func newPoint(p *series.Point, process string, wanted func(procstats.ID) bool) apijson.Point {
	shown := apijson.Point{At: p.Wall, Mono: p.Mono.Seconds(), Run: p.Run}
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
	if p.Processes == nil {
		return shown
	}
	shown.Processes = []apijson.PointProcess{}
	for i := range p.Processes {
		if row := &p.Processes[i]; process == "" || row.Command == process {
			shown.Processes = append(shown.Processes, newPointProcess(row))
		}
	}
	return shown
}

func newPointProcess(row *procstats.ProcessRow) apijson.PointProcess {
	shown := apijson.PointProcess{
		PID: row.PID, Start: row.Start, PPID: row.PPID, Command: row.Command, Measurements: map[string]float64{},
	}
	for _, reading := range row.Readings {
		if v, ok := reading.Number(); ok {
			shown.Measurements[reading.ID().String()] = v
		}
	}
	return shown
}

// notSelected is the reason for measurements that a task does not select.
const notSelected = "not selected; with the driver tacho, add it to measurements in the config of the task"

// absentOf returns the reasons why a sample, which may be nil, has no value for wanted measurements; those that it
// does not mention are among them only if they were named.
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

// measurements reads ?measurements=, a list of names and groups, or all.
func (q *request) measurements() (wanted func(procstats.ID) bool, err error) {
	text := q.values.Get("measurements")
	if text == "" {
		return func(procstats.ID) bool { return true }, nil
	}
	headlines := map[procstats.ID]bool{}
	rest := []string{}
	for name := range strings.SplitSeq(text, ",") {
		if m, ok := procstats.LookupName(name); ok && m.Scope == procstats.HeadlineScope {
			headlines[m.ID] = true // a selection would take the measurements it is taken from
		} else {
			rest = append(rest, name)
		}
	}
	selection := procstats.Selection{}
	if len(rest) > 0 {
		if selection, err = procstats.ParseSelection(strings.Join(rest, ",")); err != nil {
			return nil, badRequest(err.Error())
		}
	}
	return func(id procstats.ID) bool { return headlines[id] || selection.Has(id) }, nil
}

func (q *request) historyQuery(now time.Time) (series.Query, error) {
	if q.values.Has("at") {
		at := q.time("at", now)
		if q.err == nil && at.IsZero() {
			q.err = badRequest(`invalid at "": must be a time: ` + timeForms)
		}
		return series.Query{Nearest: at, Processes: true}, q.err
	}
	query := series.Query{
		Since: q.time("since", now), Until: q.time("until", now), Step: q.duration("step", 0), Processes: q.process() != "",
	}
	if q.err == nil && !query.Since.IsZero() && !query.Until.IsZero() && query.Until.Before(query.Since) {
		q.err = badRequest("until is before since")
	}
	if query.Step == 0 || !q.trusted {
		query.Most = mostPoints
	}
	return query, q.err
}

func (s *Server) record(q *request, a *allocation.Allocation) (any, error) {
	task, err := q.onlyTask(a)
	if err != nil {
		return nil, err
	}
	rec, err := s.agent.Record(a.ID, task)
	if err != nil {
		return nil, err
	}
	if !q.trusted {
		rec = rec.Redacted()
	}
	return rec, nil
}

func (s *Server) commands(q *request, a *allocation.Allocation) (any, error) {
	task, err := q.onlyTask(a)
	if err != nil {
		return nil, err
	}
	return s.agent.Commands(a.ID, task)
}
