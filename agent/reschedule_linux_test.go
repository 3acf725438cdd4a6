// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/agent/allocation"
)

// successor waits for the allocation that replaces another, and returns it running.
func (r *running) successor(id string) *allocation.Allocation {
	r.t.Helper()
	before := r.await(id, "replaced", func(l *allocation.Allocation) bool { return l.Next != "" })
	next := r.await(before.Next, "its replacement running", func(l *allocation.Allocation) bool { return l.Tasks["t"].RunID != "" })
	if next.Previous != id || next.Index != before.Index || next.Name != before.Name {
		r.t.Errorf("%s replaces %q of %s", next.Name, next.Previous, before.Name)
	}
	return next
}

func TestReplaceAlloc(t *testing.T) {
	r := begin(t, testConfig(shortDir(t)))
	defer r.end(true)
	first := r.submit(oneTask("service", "", "exec sleep 1000"))[0]
	r.await(first.ID, "running", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Running })
	if err := r.ReplaceAlloc(first.ID); err != nil {
		t.Fatal(err)
	}
	r.successor(first.ID)
	r.await(first.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
	// What has ended is not replaced, nor is that of a stopped job.
	if err := r.ReplaceAlloc(first.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.StopJob("test", false); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Snapshot().Allocations); n != 2 {
		t.Errorf("%d allocations", n)
	}
}

func TestReschedule(t *testing.T) {
	r := begin(t, testConfig(shortDir(t)))
	defer r.end(true)
	text := oneTask("batch", "", "exit 3")
	text = strings.Replace(text, "group ", "reschedule {\nattempts = 1\ninterval = \"1h\"\ndelay = \"5s\"\n}\ngroup ", 1)
	text = strings.Replace(text, "task ", "restart {\nattempts = 0\n}\ntask ", 1)
	first := r.submit(text)[0]
	next := r.successor(first.ID)
	r.await(next.ID, "failed", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Failed })
	if n := len(r.Snapshot().Allocations); n != 2 {
		t.Errorf("%d allocations", n)
	}
}
