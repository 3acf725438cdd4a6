// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/agent/state"
)

// TestJobIsCarriedOutAfterAKill begins with a state in which a job was registered and no allocation made.
func TestJobIsCarriedOutAfterAKill(t *testing.T) {
	c := testConfig(shortDir(t))
	store, err := state.Open(filepath.Join(c.DataDir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	source := job.Source{Filename: "f", Text: inGroup(2, shell("t", "", "exec sleep 1000"))}
	if err := store.PutJob(&state.Job{ID: "test", Source: source, Current: true}); err != nil {
		t.Fatal(err)
	}
	if err := store.PutJob(&state.Job{ID: "old", Source: job.Source{Text: "job {"}, Current: true, Placed: true}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	r := begin(t, c)
	for _, l := range r.Allocations() {
		r.await(l.ID, "running", isRunning)
	}
	if n := len(r.Allocations()); n != 2 {
		t.Errorf("%d allocations", n)
	}
	if s, err := r.Job("old"); err != nil || s.Job.ID != "old" || len(s.Job.Groups) > 0 || s.ID != "old" {
		t.Errorf("a job that cannot be read: %+v, %v", s, err)
	}
	r.end(false)
	r = begin(t, c)
	defer r.end(true)
	if n := len(r.Allocations()); n != 2 {
		t.Errorf("%d allocations after another start", n)
	}
	if _, err := r.Allocation(r.Allocations()[0].ID[:8]); err != nil {
		t.Error(err)
	}
}
