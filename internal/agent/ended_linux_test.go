// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"runtime"
	"testing"
	"weak"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestEndedAllocationsAreOnDisk holds that nothing of what ran stays in memory once an allocation has ended, and that
// all of it is shown as before.
func TestEndedAllocationsAreOnDisk(t *testing.T) {
	r := beginAlone(t)
	const more = "meta {\n a = \"b\"\n}\nrestart {\n attempts = 1\n delay = \"0s\"\n mode = \"fail\"\n}\n"
	id := r.submit(oneTask("service", more, "sleep 1; exit 3"))[0].ID
	own := testkit.Value(r.find(id))(t)
	task := weak.Make(own.Tasks()[0])
	<-own.Done()
	// An event has what was in memory.
	var last *allocation.Allocation
	events := r.Feed().Subscribe(0)
	for e, changed, err := events.Poll(); changed == nil; e, changed, err = events.Poll() {
		must(t, err)
		if e.Allocation != nil && e.Allocation.ID == id {
			last = e.Allocation
		}
	}
	r.eventually("the end of its memory", func() bool {
		runtime.GC()
		return task.Value() == nil
	})
	now := own.Snapshot()
	shown, want := *now.Tasks["t"], *last.Tasks["t"]
	if len(shown.Events)+len(shown.Attributes) != 0 {
		t.Errorf("in memory: %+v", shown)
	}
	shown.Events, shown.Attributes = shown.Details()
	if shown.Stored = nil; now.ClientStatus != allocation.Failed || len(shown.Events) < 5 || shown.State.Restarts != 1 {
		t.Errorf("%+v", shown)
	}
	testkit.Diff(t, "task", want, shown)
	if u := r.usage(id); !u.Counted || len(u.Totals.Counters) != 0 || len(u.Stored()) < 10 {
		t.Errorf("%+v", u)
	}
	if points, err := r.History(id, "", series.Query{}); len(points) == 0 || err != nil {
		t.Errorf("history: %v, %v", points, err)
	}
	if record, err := r.Record(id, "t"); err != nil || *record.ExitCode != 3 {
		t.Errorf("record: %+v, %v", record, err)
	}
	if err := r.RestartAlloc(id, "t"); err == nil {
		t.Error("restarted")
	}
}
