// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
)

// TestChangeOf holds that nothing is computed from a value that was not measured, and that nothing is divided by 0.
func TestChangeOf(t *testing.T) {
	for _, test := range []struct{ a, b, change, ratio *float64 }{
		{new(2.0), new(3.0), new(1.0), new(0.5)},
		{new(2.0), new(0.0), new(-2.0), new(-1.0)},
		{new(0.0), new(3.0), new(3.0), nil},
		{nil, new(3.0), nil, nil},
		{new(2.0), nil, nil, nil},
	} {
		row := changeOf(diffRow{A: test.a, B: test.b})
		if diff := cmp.Diff([]*float64{test.change, test.ratio}, []*float64{row.Change, row.ChangeRatio}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestUnlike(t *testing.T) {
	a := &record.Record{
		State: record.Exited, Command: []string{"make"},
		About:        record.About{Host: record.Host{Name: "alpha", CPUs: 8}},
		Surroundings: record.Surroundings{Selection: []string{"x", "y"}},
	}
	same := *a
	if got := unlike(a, &same); len(got) > 0 {
		t.Errorf("equal records: %q", got)
	}
	b := &record.Record{
		State: record.Lost, Command: []string{"make", "-j4"},
		About:        record.About{Host: record.Host{Name: "beta", CPUs: 8}},
		Surroundings: record.Surroundings{Selection: []string{"x"}},
	}
	want := []string{
		"B is lost: its record is incomplete", "different commands: make and make -j4", "different hosts: alpha and beta",
		"different selections; only in A: y",
	}
	if diff := cmp.Diff(want, unlike(a, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
