// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"testing"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// collect takes one sample of its own moment.
func collect(s *procstats.Sample, sources ...Source) {
	s.Reset()
	s.Stamp = kernel.Now()
	for _, source := range sources {
		source.Collect(s)
	}
	for _, source := range sources {
		if tree, ok := source.(*treeSource); ok {
			tree.closeSum(s)
		}
	}
}

// mustNumber returns a measurement of the task that has to be there.
func mustNumber(tb testing.TB, s *procstats.Sample, id procstats.ID) float64 {
	tb.Helper()
	value, ok := s.Task.Number(id)
	if !ok {
		r, _ := s.Task.Get(id)
		tb.Fatalf("%s is absent: %q", id.String(), r.Reason())
	}
	return value
}
