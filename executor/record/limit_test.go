// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record_test

import (
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestLimitTexts holds that limits which the kernel names have their unit too.
func TestLimitTexts(t *testing.T) {
	for name, want := range map[string]string{
		"memory.memsw.limit_in_bytes": "2 MiB", "io.max 8:0 rbps": "2 MiB", "memory.oom.group": "2,097,152",
		procstats.CgroupMemoryMax.String(): "2 MiB", procstats.CgroupPidsMax.String(): "2,097,152",
	} {
		limit := record.Limit{Name: name, Requested: new(2097152.0)}
		requested, effective := limit.Texts()
		testkit.Diff(t, name, [2]string{want, procstats.NoValue}, [2]string{requested, effective})
	}
	limit := record.Limit{Name: "cpuset.cpus", Requested: new(2.0), RequestedText: "0-1"}
	requested, _ := limit.Texts()
	testkit.Equal(t, requested, "0-1", "a list")
}
