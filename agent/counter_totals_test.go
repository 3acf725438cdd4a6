// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// TestUsed adds up the starts of a task, with what of them was under this agent.
func TestUsed(t *testing.T) {
	const cpu, kills = procstats.CgroupCPUUsage, procstats.CgroupMemoryEventsOOMKill
	final := func(seconds float64, killed int64) *record.Record {
		r := &record.Record{Measurements: map[string]any{
			cpu.String(): seconds, procstats.CgroupMemoryCurrent.String(): 4096.0, "of_another_build": 1.0,
		}}
		r.Diagnosis.OOM.Kills = &killed
		return r
	}
	sample := func(seconds float64) *procstats.Sample {
		s := &procstats.Sample{}
		s.SetNumber(cpu, seconds)
		s.SetNumber(procstats.CgroupMemoryCurrent, 4096)
		return s
	}
	var u used
	check := func(why string, want map[procstats.ID]float64) {
		t.Helper()
		if diff := cmp.Diff(want, u.ended); diff != "" {
			t.Errorf("%s: %s", why, diff)
		}
	}
	u.takeUp()
	u.end(final(100, 0))
	check("one that was never read under this agent", nil)
	u.takeUp()
	u.read(sample(30), nil)
	u.read(sample(31), nil)
	u.end(final(32, 0))
	u.end(final(32, 0))
	check("one that was taken up", map[procstats.ID]float64{cpu: 2, kills: 0})
	before := u.ended
	u.begin()
	u.read(sample(1), nil)
	u.end(final(5, 3))
	check("one that began under it", map[procstats.ID]float64{cpu: 7, kills: 3})
	if before[cpu] != 2 {
		t.Error("what others had was changed")
	}
}
