// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

// status is a job as it is shown.
func (r *running) status(id string) *snapshot.Job {
	r.t.Helper()
	j := testkit.Value(r.Snapshot().Job(id))(r.t)
	return j
}

// waits checks that a job's allocations wait for a place, and why.
func (r *running) waits(id, reason string) {
	r.t.Helper()
	var reasons []string
	for _, u := range r.status(id).Unplaced {
		reasons = append(reasons, u.Reasons()...)
	}
	if text := strings.Join(reasons, "; "); !strings.Contains(text, reason) {
		r.t.Errorf("job %s waits because of %q, want %q", id, text, reason)
	}
}

// placed waits until a job waits for nothing and has so many allocations to run.
func (r *running) placed(id string, count int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%d allocations of %s", count, id), func() bool {
		n := 0
		for _, l := range r.Snapshot().Allocations {
			if l.JobID == id && l.DesiredStatus == allocation.DesiredRun && l.ClientStatus == allocation.Running {
				n++
			}
		}
		return n == count && len(r.status(id).Unplaced) == 0
	})
}

// constrained is a job for nodes of a kernel, with so many allocations.
func constrained(kernel string, count int) string {
	return strings.Replace(inGroup(count, shell("t", "", "exec sleep 1000")), "group ",
		"constraint {\nattribute = \"${attr.kernel.name}\"\nvalue = \""+kernel+"\"\n}\ngroup ", 1)
}

// TestUnplaced has a job for another kernel, which waits, also over a restart of the agent, until the job changes.
// What ran before runs on while nothing can take its place.
func TestUnplaced(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	r := begin(t, testConfig(dir))
	if own := r.submit(constrained("plan9", 2)); len(own) != 0 {
		t.Errorf("allocations %+v", own)
	}
	r.waits("test", `constraint "${attr.kernel.name} = plan9" filtered 1 node`)
	if j := r.status("test"); j.Status != "pending" || len(j.Unplaced["g"].Indexes) != 2 {
		t.Errorf("job %+v", j)
	}
	// The same job again changes nothing.
	if _, changed, err := r.RunJob(t.Context(), job.Source{Filename: "test.hcl", Text: constrained("plan9", 2)}, nil); changed || err != nil {
		t.Errorf("changed %t, error %v", changed, err)
	}
	r.end(false)
	r = begin(t, testConfig(dir))
	defer r.end(true)
	r.eventually("the reason after a restart", func() bool { return len(r.status("test").Unplaced) == 1 })
	r.submit(constrained("linux", 2))
	r.placed("test", 2)
	before := r.Snapshot().Allocations
	r.submit(strings.Replace(constrained("plan9", 2), "sleep 1000", "sleep 2000", 1))
	r.waits("test", "plan9")
	for _, l := range before {
		if now, err := r.Snapshot().Allocation(l.ID); err != nil || now.DesiredStatus != allocation.DesiredRun {
			t.Errorf("%s: %+v, error %v", l.Name, now, err)
		}
	}
	if j := r.status("test"); j.Status != "running" || j.Version != 2 {
		t.Errorf("job %+v", j)
	}
}

// TestPortsAreAwaited has two allocations of one group that ask for the same port: the second waits until the first
// is gone.
func TestPortsAreAwaited(t *testing.T) {
	r := beginAlone(t)
	own := r.submit(strings.Replace(inGroup(2, shell("t", "", "exec sleep 1000")), "task ", "network {\nport \"p\" {\nstatic = 3\n}\n}\ntask ", 1))
	if len(own) != 1 {
		t.Fatalf("%d allocations", len(own))
	}
	r.waits("test", "port 3 (p) of group g is used by")
	r.findByID(own[0].ID).Stop(userStopped)
	r.await(own[0].ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
	r.placed("test", 1)
}

func TestStatusOfJob(t *testing.T) {
	t.Parallel()
	undecided := &allocation.Allocation{JobID: "j", ClientStatus: allocation.Failed}
	failed := &allocation.Allocation{JobID: "j", ClientStatus: allocation.Failed, Over: true}
	again := &allocation.Allocation{JobID: "j", ClientStatus: allocation.Failed, Over: true, Rescheduled: failed.CreateTime.AddDate(2026, 0, 0)}
	for _, test := range []struct {
		name   string
		job    snapshot.Job
		allocs []*allocation.Allocation
		want   string
	}{
		{"a batch job that may be tried again", snapshot.Job{}, []*allocation.Allocation{undecided}, "running"},
		{"a batch job that has failed", snapshot.Job{}, []*allocation.Allocation{failed}, "dead"},
		{"a batch job that will be tried again", snapshot.Job{}, []*allocation.Allocation{again}, "pending"},
		{"a stopped job", snapshot.Job{Stopped: true}, []*allocation.Allocation{again}, "dead"},
		{"a newer version", snapshot.Job{Version: 1}, []*allocation.Allocation{again}, "dead"},
		{"a system job", snapshot.Job{Job: &job.Job{Type: job.TypeSystem}}, []*allocation.Allocation{failed}, "dead"},
		{"a stopped system job", snapshot.Job{Stopped: true, Job: &job.Job{Type: job.TypeSystem}}, []*allocation.Allocation{failed}, "dead"},
		{"without a place", snapshot.Job{Unplaced: map[string]*snapshot.Unplaced{"g": {}}}, nil, "pending"},
	} {
		test.job.ID = "j"
		if test.job.Job == nil {
			test.job.Job = &job.Job{Type: job.TypeBatch}
		}
		testkit.Equal(t, statusOfJob(&test.job, test.allocs), test.want, "%s", test.name)
	}
}
