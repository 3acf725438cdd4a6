// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package reader

import (
	"testing"

	"github.com/tachograph/tacho/procstats"
)

// TestEarlierSet holds that a set, which is held until the one after the next, has no room for readings that never
// come.
func TestEarlierSet(t *testing.T) {
	ids := []procstats.ID{procstats.TreeCPU, procstats.TreeThreads, procstats.TreeProcesses}
	s := rows{selection: procstats.Select(ids...), newest: &procstats.Sample{}}
	for _, id := range append(ids, procstats.CgroupCPUUsage) {
		s.newest.SetNumber(id, 1)
	}
	if task := s.reduced().Task; len(task) != len(ids) || cap(task) != len(ids) {
		t.Errorf("%d readings with room for %d, want %d", len(task), cap(task), len(ids))
	}
}
