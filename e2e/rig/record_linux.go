// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// Runs returns the records in a place's output folder. A folder without one is not a run yet.
func (p *Place) Runs(t testing.TB) []record.Entry {
	t.Helper()
	runs, err := record.ListBriefly(p.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	runs = slices.DeleteFunc(record.Whole(runs), func(run record.Entry) bool { return errors.Is(run.Err, fs.ErrNotExist) })
	for _, run := range runs {
		if run.Err != nil {
			t.Fatal(run.Err)
		}
	}
	return runs
}

// TheRun returns the one record of a place.
func (p *Place) TheRun(t testing.TB) record.Entry {
	t.Helper()
	runs := p.Runs(t)
	if len(runs) != 1 {
		t.Fatalf("%d records in %s, want 1", len(runs), p.Out)
	}
	return runs[0]
}

// Reports returns the lines of a run's usage.jsonl.
func Reports(t testing.TB, run record.Entry) []*record.Usage {
	t.Helper()
	var reports []*record.Usage
	for report, err := range record.ReadUsage(run.Dir) {
		testkit.Must(t, err)
		reports = append(reports, report)
	}
	return reports
}

// patience is how long anything may take that is expected to happen at all.
const patience = 30 * time.Second

// Running waits until the place's record says that the command runs, and returns it.
func (p *Place) Running(t testing.TB) (found *record.Record) {
	t.Helper()
	Eventually(t, patience, "a record says that the command runs", func() bool {
		runs := p.Runs(t)
		if len(runs) == 1 && runs[0].Record.State == record.Running && runs[0].Record.PID != 0 {
			found = runs[0].Record
		}
		return found != nil
	})
	return found
}

// Closed waits for the last word of the place's record, and returns it.
func (p *Place) Closed(t testing.TB) (r *record.Record) {
	t.Helper()
	Eventually(t, patience, "the record is closed", func() bool {
		r = p.TheRun(t).Record
		return r.State != record.Running
	})
	return r
}
