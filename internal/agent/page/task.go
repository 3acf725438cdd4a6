// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
)

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
