// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Victims names the processes that were killed in a cgroup whose counters the caller reads. It registers for no events,
// so that nothing is written in the cgroup. It is used by one goroutine at a time; nil is closed.
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
	limit, limited := after.Task.Number(procstats.CgroupMemoryMax)
	was, is := countersOf(before, limited), countersOf(after, limited)
	kill.Group, kill.Scope = is.GroupKills > was.GroupKills, record.ScopeOf(was, is, found.scope, false)
	if limited && kill.Scope == record.Own {
		kill.LimitBytes = new(int64(limit))
	}
	return kill
}

// countersOf returns the counters of a sample. The events are those of groups below, too: without a limit, they are not
// the group's own.
func countersOf(s *procstats.Sample, limited bool) (c record.OOMCounters) {
	groups, _ := s.Task.Number(procstats.CgroupMemoryEventsOOMGroupKill) // since Linux 5.17
	c.GroupKills = int64(groups)
	if limited {
		own, _ := s.Task.Number(procstats.CgroupMemoryEventsOOM) // not of version 1
		c.Own = int64(own)
	}
	return c
}

// Close closes the kernel's log.
func (v *Victims) Close() error {
	if v == nil {
		return nil
	}
	return v.finder.close()
}
