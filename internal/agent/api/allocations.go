// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// allocations lists the allocations that match.
func (q *request) allocations(match func(*allocation.Allocation) bool) []*apijson.Allocation {
	list := []*apijson.Allocation{}
	for _, a := range q.now.Allocations {
		if match(a) {
			list = append(list, newAllocationJSON(a, q.trusted))
		}
	}
	return list
}

func (s *Server) listAllocations(q *request) (any, error) {
	prefix := strings.ToLower(q.values.Get("prefix"))
	return q.allocations(func(a *allocation.Allocation) bool {
		return q.inNamespace(a.Namespace) && strings.HasPrefix(a.ID, prefix)
	}), nil
}

func (s *Server) readAllocation(q *request, a *allocation.Allocation) (any, error) {
	shown := newAllocationJSON(a, q.trusted)
	q.addJob(shown)
	return shown, nil
}

// addJob adds an allocation's job, unless it was purged.
func (q *request) addJob(a *apijson.Allocation) {
	if j, err := q.now.Job(a.JobID); err == nil {
		a.Job = newJobJSON(j, q.trusted)
	}
}

func (s *Server) stopAllocation(_ *request, a *allocation.Allocation) (any, error) {
	if err := s.agent.ReplaceAlloc(a.ID); err != nil {
		return nil, err
	}
	return map[string]any{"EvalID": decisionID(allocStopped, a), "Index": s.index()}, nil
}

func (s *Server) restartAllocation(q *request, a *allocation.Allocation) (any, error) {
	var body struct {
		TaskName string
		AllTasks bool
	}
	if q.ContentLength != 0 { // as in Nomad, where no body means all running tasks
		if err := q.readBody(&body); err != nil {
			return nil, err
		}
	}
	for name, t := range a.Tasks {
		if body.AllTasks && t.State.Phase == hook.PhaseDead {
			return nil, badRequest("restart of ended tasks is not supported, and " + name +
				" has ended; without AllTasks the running ones are restarted")
		}
	}
	if err := checkTask(a, body.TaskName); err != nil {
		return nil, err
	}
	return map[string]any{"Index": s.index()}, s.agent.RestartAlloc(a.ID, body.TaskName)
}

func (s *Server) signalAllocation(q *request, a *allocation.Allocation) (any, error) {
	var body struct{ Signal, Task string }
	if err := q.readBody(&body); err != nil {
		return nil, err
	}
	if body.Signal == "" {
		return nil, badRequest("the body names no signal")
	}
	if err := checkTask(a, body.Task); err != nil {
		return nil, err
	}
	return map[string]any{"Index": s.index()}, s.agent.SignalAlloc(q.Context(), a.ID, body.Task, body.Signal)
}

// newAllocationJSON returns an allocation; for untrusted callers its names, numbers and states only.
func newAllocationJSON(a *allocation.Allocation, trusted bool) *apijson.Allocation {
	shown := &apijson.Allocation{
		ID: a.ID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName,
		JobID: a.JobID, JobType: a.JobType, JobVersion: a.JobVersion, TaskGroup: a.Group,
		EvalID:             versionID(registered, a.Namespace, a.JobID, a.JobVersion),
		TaskResources:      map[string]apijson.Resources{},
		AllocatedResources: apijson.Allocated{Tasks: map[string]apijson.AllocatedTask{}},
		DesiredStatus:      a.DesiredStatus, ClientStatus: string(a.ClientStatus),
		PreviousAllocation: a.Previous, NextAllocation: a.Next,
		TaskStates: map[string]*apijson.TaskState{}, PreemptedAllocations: []string{},
		Metrics:     apijson.AllocationMetrics{NodesEvaluated: 1, NodesInPool: 1, NodesAvailable: map[string]int{}},
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, AllocModifyIndex: a.ModifyIndex,
		CreateTime: a.CreateTime.UnixNano(), ModifyTime: a.ModifyTime.UnixNano(),
	}
	if trusted {
		shown.ClientDescription = a.Description
	}
	if !a.Rescheduled.IsZero() {
		shown.FollowupEvalID = decisionID(rescheduled, a)
	}
	shared := &shown.AllocatedResources.Shared
	for _, p := range a.Ports {
		shared.Ports = append(shared.Ports, apijson.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
		shared.Networks = []apijson.Network{{Mode: "host", IP: a.Ports[0].HostIP, DynamicPorts: shared.Ports}}
	}
	for name, t := range a.Tasks {
		shown.TaskStates[name] = newTaskState(t, trusted)
		addResources(shown, name, t.Resources)
	}
	return shown
}

func newResources(r job.Resources) apijson.Resources {
	return apijson.Resources{CPU: r.CPU, Cores: r.Cores, MemoryMB: r.MemoryMB, MemoryMaxMB: r.MemoryMaxMB}
}

func addResources(a *apijson.Allocation, task string, r job.Resources) {
	a.TaskResources[task] = newResources(r)
	a.Resources.CPU += r.CPU
	a.Resources.Cores += r.Cores
	a.Resources.MemoryMB += r.MemoryMB
	a.Resources.MemoryMaxMB += r.MemoryMaxMB
	allocated := apijson.AllocatedTask{}
	allocated.Cpu.CpuShares = r.CPU
	allocated.Memory.MemoryMB, allocated.Memory.MemoryMaxMB = r.MemoryMB, r.MemoryMaxMB
	a.AllocatedResources.Tasks[task] = allocated
}

func newTaskState(t *allocation.Task, trusted bool) *apijson.TaskState {
	events, attributes := t.Details()
	shown := &apijson.TaskState{
		State: string(cmp.Or(t.State.Phase, hook.PhasePending)), Failed: t.State.Failed, Restarts: t.State.Restarts,
		LastRestart: t.State.LastRestart, StartedAt: t.State.StartedAt, FinishedAt: t.State.FinishedAt,
		Events: make([]apijson.TaskEvent, 0, len(events)),
		Tacho:  apijson.TaskDetails{Driver: t.Driver, Cores: t.Cores},
	}
	if t.State.Phase != hook.PhaseRunning {
		shown.Tacho.Outcome = t.Outcome
	}
	if end := t.LastEnd(); end.Outcome != "" {
		shown.Tacho.LastEnd = &end
	}
	if e := t.State.Exit; e != nil {
		shown.Tacho.Exit = &apijson.Exit{
			Code: e.Code, Signal: e.Signal, OOMKilled: e.OOMKilled, Lost: e.Lost != "", Cause: string(e.Cause), At: e.At,
		}
	}
	if t.Driver == allocation.Watch {
		shown.Tacho.Labels = t.Meta
	}
	if trusted {
		shown.Tacho.RunID, shown.Tacho.Attributes = t.RunID, attributes
	}
	for i := range events {
		shown.Events = append(shown.Events, newTaskEvent(&events[i], trusted))
	}
	return shown
}

// hidden replaces a message. Clients make one up if it is empty.
const hidden = "(hidden: sign in with the token, or use the unix socket)"

// newTaskEvent returns an event, redacted for untrusted callers.
func newTaskEvent(e *allocation.Event, trusted bool) apijson.TaskEvent {
	shown := apijson.TaskEvent{Type: string(e.Type), Time: e.Time.UnixNano(), Details: map[string]string{}}
	shown.ExitCode, _ = strconv.Atoi(e.Details[allocation.DetailExitCode])
	shown.Signal, _ = strconv.Atoi(e.Details[allocation.DetailSignal])
	var redacted bool
	if shown.Message, redacted = e.MessageFor(trusted); redacted {
		shown.Message = hidden
	}
	if trusted || e.Public() {
		maps.Copy(shown.Details, e.Details)
	}
	shown.DisplayMessage = shown.Message
	return shown
}

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
