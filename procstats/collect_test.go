// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "testing"

// collect takes one sample of its own moment.
func collect(s *Sample, sources ...Source) {
	s.Reset()
	s.Stamp = Now()
	for _, source := range sources {
		source.Collect(s)
	}
}

// mustNumber returns a measurement of the task that has to be there.
func mustNumber(tb testing.TB, s *Sample, id ID) float64 {
	tb.Helper()
	value, ok := s.Task.Number(id)
	if !ok {
		r, _ := s.Task.Get(id)
		tb.Fatalf("%s is absent: %q", rowOf(id).Name, r.Reason())
	}
	return value
}
