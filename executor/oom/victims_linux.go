// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"cmp"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Victims names the processes that were killed in a cgroup of which somebody else reads the counters. It registers for
// no events, so that nothing is written in the cgroup. It is used by one goroutine at a time; nil is closed.
type Victims struct{ finder victimFinder }

// OpenVictims looks for kills since a time on the monotonic clock.
func OpenVictims(host kernel.FS, cgroup procstats.Cgroup, since time.Duration) *Victims {
	own, _ := findGroups(host, cgroup) // without them the log names no group that is ours
	return &Victims{victimFinder{host: host, own: own.own, path: own.path, since: since}}
}

// Describe says what became of a number of kills that the counters tell of: before and after are the samples around
// them.
func (v *Victims) Describe(kills int64, before, after *procstats.Sample) record.Kill {
	v.finder.latest = func() *procstats.Sample { return before }
	if peak, known := after.Task.Number(procstats.CgroupMemoryPeak); known {
		v.finder.peak = func() (int64, bool) { return int64(peak), true }
	}
	found := v.finder.find(kills)
	kill := record.Kill{At: time.Now(), Kills: kills, Victims: found.victims, Reason: found.reason}
	rose := func(id procstats.ID) bool {
		was, _ := before.Task.Number(id)
		is, _ := after.Task.Number(id)
		return is > was
	}
	kill.Group = rose(procstats.CgroupMemoryEventsOOMGroupKill)
	limit, limited := after.Task.Number(procstats.CgroupMemoryMax)
	kill.Scope = cmp.Or(found.scope, record.AncestorOrHost)
	if found.scope == "" && limited && rose(procstats.CgroupMemoryEventsOOM) {
		kill.Scope = record.Own
	}
	if limited && kill.Scope == record.Own {
		kill.LimitBytes = new(int64(limit))
	}
	return kill
}

// Close closes the kernel's log.
func (v *Victims) Close() error {
	if v == nil {
		return nil
	}
	return v.finder.close()
}
