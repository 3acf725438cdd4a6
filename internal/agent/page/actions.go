// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"net/http"

	"github.com/tachograph/tacho/hook"
)

// Actions are what signed-in readers may do; *agent.Agent has them.
type Actions interface {
	RestartAlloc(id, task string) error
	// ReplaceAlloc stops an allocation; another takes its place, unless its job was stopped.
	ReplaceAlloc(id string) error
	StopJob(id string, purge bool, check func(index uint64) error) error
}

// actions are the buttons on a task's page.
type actions struct{ Restart, Stop, StopJob string }

// actionsOf returns the actions that make sense for a task and a reader; nil if no action does.
func (p *Page) actionsOf(t task, trusted bool) *actions {
	if !trusted || p.options.Actions == nil || t.dead() {
		return nil
	}
	a := &actions{Stop: t.Path() + "/stop", StopJob: t.Path() + "/stop-job"}
	if t.state.State.Phase == hook.PhaseRunning {
		a.Restart = t.Path() + "/restart"
	}
	return a
}

// doing is a change of one task's allocation or job.
func (p *Page) doing(do func(a Actions, t task) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		t, err := find(r, p.agent.Snapshot(), false)
		if err != nil {
			return err
		}
		p.log.Info("action from the page", "path", t.Path(), "remote", r.RemoteAddr)
		if err := do(p.options.Actions, t); err != nil {
			return err
		}
		http.Redirect(w, r, t.Path(), http.StatusSeeOther)
		return nil
	}
}

// actionRoutes adds what changes something.
func (p *Page) actionRoutes(mux *http.ServeMux, trusted bool) {
	mux.HandleFunc("POST /sign-in", p.signIn)
	mux.HandleFunc("POST /sign-out", p.act(trusted, p.signOut))
	mux.HandleFunc("POST /page/link", p.act(trusted, p.issue(trusted)))
	if p.options.Actions == nil {
		return
	}
	for path, do := range map[string]func(a Actions, t task) error{
		"restart":  func(a Actions, t task) error { return a.RestartAlloc(t.allocation.ID, t.state.Name) },
		"stop":     func(a Actions, t task) error { return a.ReplaceAlloc(t.allocation.ID) },
		"stop-job": func(a Actions, t task) error { return a.StopJob(t.allocation.JobID, false, nil) },
	} {
		mux.HandleFunc("POST /alloc/{id}/{task}/"+path, p.act(trusted, p.doing(do)))
	}
}
