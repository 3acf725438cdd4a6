// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// unplacedOn are two allocations that wait for another kernel.
func unplacedOn(kernel string) map[string]*snapshot.Unplaced {
	u := &snapshot.Unplaced{Exhausted: []string{"port 80 is used by " + secret}}
	for index := range 2 {
		u.Add(index, []*job.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: kernel}}, "")
	}
	return map[string]*snapshot.Unplaced{"cache": u}
}

// TestPlacementFailures has a job that waits for a place: its registration is decided, and another decision is blocked.
func TestPlacementFailures(t *testing.T) {
	f := newFake()
	f.jobs[1].Unplaced = unplacedOn(secret)
	h := newTestServer(f).Handler(false)
	var all []evaluation
	get(t, h, "/v1/job/web/evaluations", &all, withToken)
	if len(all) != 2 {
		t.Fatalf("evaluations %+v", all)
	}
	done, blocked := all[0], all[1]
	failed := done.FailedTGAllocs["cache"]
	switch {
	case done.Status != "complete" || done.BlockedEval != blocked.ID || blocked.PreviousEval != done.ID || blocked.Status != "blocked":
		t.Errorf("evaluations %+v", all)
	case failed == nil || failed.CoalescedFailures != 1 || failed.ConstraintFiltered["${attr.kernel.name} = "+secret] != 1 || done.QueuedAllocations["cache"] != 2:
		t.Errorf("failure %+v", failed)
	}
	for _, path := range []string{"/v1/job/web/evaluations", "/v1/evaluation/" + blocked.ID, "/v1/job/web"} {
		w := ask(t, h, "GET", path, "")
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s without the token: %d\n%s", path, w.Code, w.Body)
		}
	}
	if w := ask(t, h, "GET", "/v1/job/web/summary", ""); !strings.Contains(w.Body.String(), `"Queued":2`) {
		t.Errorf("summary %s", w.Body)
	}
}

// TestFollowup has a failed allocation that will be replaced: its evaluation waits until then.
func TestFollowup(t *testing.T) {
	f := newFake()
	f.allocs[1].Rescheduled = epoch.Add(time.Hour)
	h := newTestServer(f).Handler(false)
	var shown struct{ FollowupEvalID string }
	get(t, h, "/v1/allocation/"+batchID, &shown)
	var e evaluation
	get(t, h, "/v1/evaluation/"+shown.FollowupEvalID, &e)
	if e.Status != "pending" || e.TriggeredBy != rescheduled || !e.WaitUntil.Equal(epoch.Add(time.Hour)) || e.JobID != "nightly" {
		t.Errorf("evaluation %+v", e)
	}
}
