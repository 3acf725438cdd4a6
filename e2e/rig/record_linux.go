// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/tachograph/tacho/executor/record"
)

// Runs returns the records in a place's output folder. A folder without one is not a run yet.
func (p *Place) Runs(t testing.TB) []record.Entry {
	t.Helper()
	runs, err := record.List(p.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	runs = slices.DeleteFunc(runs, func(run record.Entry) bool { return errors.Is(run.Err, fs.ErrNotExist) })
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
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, report)
	}
	return reports
}
