// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"math"
	"slices"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// cpuQuotas reads the CPU quotas that hold for a task, and how much those of the groups above its own throttle.
type cpuQuotas struct {
	ids []procstats.ID // the selected measurements
	// groups are the task's own and those above it, the nearest first. If inherited is set it has none of its own, and
	// they begin with its executor's.
	groups    []quotaGroup
	inherited bool
	shared    *Shared
	reason    string // why there are no groups
	// grown is how much each counter of the groups above grew from the task's start until they were opened.
	grown map[procstats.ID]float64
}

// aboveFrom maps each counter of the groups above to the row that a group has for its own.
//
//nolint:gochecknoglobals // a constant table
var aboveFrom = map[procstats.ID]procstats.ID{
	procstats.CgroupCPUAncestorThrottledPeriods: procstats.CgroupCPUThrottledPeriods,
	procstats.CgroupCPUAncestorThrottled:        procstats.CgroupCPUThrottled,
	procstats.CgroupCPUInheritedThrottled:       procstats.CgroupCPUThrottled,
}

const (
	reasonNotInherited = "the task has a CPU cgroup of its own"
	reasonInherited    = "cpu controller not available: the task has no cgroup in its hierarchy"
)

// quotaGroup is a group that may have a quota.
type quotaGroup struct {
	path  string // within the hierarchy
	quota *cgroupFile
	// readElsewhere is set where the file of the quota is one of the task's that are read, and closed, elsewhere.
	readElsewhere bool
	// stat has the group's throttling; nil for the task's own group, whose rows are read elsewhere.
	stat    *cgroupFile
	limited bool // at the last read
}

// openCPUQuotas opens the groups of a task, but for the files of its own that are read already. What those above
// counted before its start is not the task's.
func openCPUQuotas(t Target, sel procstats.Selection, read []cgroupFile) (q cpuQuotas) {
	q.shared = t.shared()
	for _, id := range []procstats.ID{
		procstats.CgroupCPUQuotaEffective, procstats.CgroupCPUAncestorThrottledPeriods, procstats.CgroupCPUAncestorThrottled,
		procstats.CgroupCPUInheritedQuota, procstats.CgroupCPUInheritedThrottled,
	} {
		if sel.Has(id) {
			q.ids = append(q.ids, id)
		}
	}
	if len(q.ids) == 0 {
		return q
	}
	mounts, err := kernel.CgroupMounts(t.FS)
	if err != nil {
		q.reason = err.Error()
		return q
	}
	own, version := cpuGroup(t.Cgroup, mounts)
	if q.inherited = own == "" || t.Cgroup.Shared; q.inherited && own == "" {
		executors, err := kernel.FindCgroup(t.FS, t.Parent)
		if own, version = cpuGroup(executors, mounts); err != nil || own == "" {
			q.reason = reasonInherited
			return q
		}
	}
	specs := q.shared.cgroupFiles(t.FS).v1
	if version == 2 {
		specs = q.shared.cgroupFiles(t.FS).v2
	}
	q.open(own, version, specs, mounts, read)
	q.grown = make(map[procstats.ID]float64)
	for id := range aboveFrom {
		if before, known := t.Before[id]; known {
			q.grown[id] = q.openedAt(id) - before
		}
	}
	return q
}

// cpuGroup returns the folder of a cgroup that has its CPU quota, and the version of its hierarchy; empty if there is
// none.
func cpuGroup(c procstats.Cgroup, mounts []kernel.CgroupMount) (dir string, version int) {
	// Where version 1 has the quotas, version 2 has none, also beside it.
	_, inVersion1 := kernel.MountOf(mounts, "cpu")
	if dir = c.V1["cpu"]; dir != "" || inVersion1 {
		return dir, 1
	}
	return c.V2, 2
}

// open opens the first group and those above it.
func (q *cpuQuotas) open(
	first string, version int, specs []cgroupFileSpec, mounts []kernel.CgroupMount, read []cgroupFile,
) {
	quota, stat := specOf(specs, procstats.CgroupCPUQuota), specOf(specs, procstats.CgroupCPUThrottled)
	openQuota := func(dir string) *cgroupFile { return openAlone(dir, quota, procstats.CgroupCPUQuota) }
	above := kernel.CgroupAncestors(first, mounts)
	if q.inherited {
		above = append([]string{first}, above...)
	} else if i := slices.IndexFunc(read, func(f cgroupFile) bool { return f.has(procstats.CgroupCPUQuota) }); i >= 0 {
		q.groups = append(q.groups, quotaGroup{quota: &read[i], readElsewhere: true})
	} else {
		q.groups = append(q.groups, quotaGroup{quota: openQuota(first)})
	}
	for _, dir := range above {
		if version == 1 && kernel.IsCgroupRoot(version, dir) { // which has the files and takes no quota
			continue
		}
		g := quotaGroup{
			path:  kernel.CgroupPath(dir, mounts),
			quota: openQuota(dir), stat: openAlone(dir, stat, procstats.CgroupCPUThrottled, procstats.CgroupCPUThrottledPeriods),
		}
		if !g.quota.isOpen() { // the root of a v2 hierarchy
			_ = g.stat.close()
			continue
		}
		g.stat.collect(q.shared)
		_ = g.stat.countFrom(nil) // closing what is only read
		q.groups = append(q.groups, g)
	}
}

// openedAt is what the groups above had counted in sum when they were opened.
func (q *cpuQuotas) openedAt(id procstats.ID) (total float64) {
	for i := range q.groups {
		if f, at := q.groups[i].field(aboveFrom[id]); f != nil {
			total += f.before(at) / f.spec.fields[at].units()
		}
	}
	return total
}

// addBefore says what the counters began at when the task started.
func (q *cpuQuotas) addBefore(before map[procstats.ID]float64) {
	for _, id := range q.ids {
		if _, counts := aboveFrom[id]; counts && q.reason == "" {
			before[id] = q.openedAt(id) - q.grown[id]
		}
	}
}

// collect reads the quotas, and the throttling of groups that have one: that of others stands still. The task's own
// files have been read.
func (q *cpuQuotas) collect(s *procstats.Sample) {
	for i := range q.groups {
		g := &q.groups[i]
		if !g.readElsewhere {
			g.quota.collect(q.shared)
		}
		_, limited := g.cores()
		if g.stat != nil && (limited || g.limited) {
			g.stat.collect(q.shared)
		}
		g.limited = limited
	}
	for _, id := range q.ids {
		forInherited := id == procstats.CgroupCPUInheritedQuota || id == procstats.CgroupCPUInheritedThrottled
		switch {
		case q.reason != "":
			s.SetAbsent(id, q.reason)
		case forInherited && !q.inherited:
			s.SetAbsent(id, reasonNotInherited)
		case q.inherited && !forInherited:
			s.SetAbsent(id, reasonInherited)
		case id == procstats.CgroupCPUQuotaEffective, id == procstats.CgroupCPUInheritedQuota:
			s.Task.Put(q.lowest(id))
		default:
			s.Task.Put(q.throttled(id))
		}
	}
}

func (q *cpuQuotas) lowest(id procstats.ID) procstats.Reading {
	lowest := math.Inf(1)
	for i := range q.groups {
		if cores, set := q.groups[i].cores(); set {
			lowest = min(lowest, cores)
		}
	}
	if math.IsInf(lowest, 1) {
		return procstats.AbsentReading(id, procstats.ReasonNoLimit)
	}
	return procstats.NumberReading(id, lowest)
}

// throttled sums a counter over the groups above. Two that throttle at once both count: the sum is an upper bound.
func (q *cpuQuotas) throttled(id procstats.ID) procstats.Reading {
	if len(q.groups) > 0 {
		if own := q.groups[0].quota; own.worked && own.fault != nil { // the group was removed
			return procstats.AbsentReading(id, own.absent())
		}
	}
	total := q.grown[id]
	for i := range q.groups {
		switch r := q.groups[i].throttled(aboveFrom[id]); {
		case r.Present():
			value, _ := r.Number()
			total += value
		case q.groups[i].limited && q.groups[i].stat != nil:
			return procstats.AbsentReading(id, r.Reason())
		}
	}
	return procstats.NumberReading(id, total)
}

// cores is the group's quota; ok is false if none is set.
func (g *quotaGroup) cores() (quota float64, ok bool) {
	return g.quota.reading(g.quota.find(procstats.CgroupCPUQuota)).Number()
}

func (g *quotaGroup) throttled(from procstats.ID) procstats.Reading {
	if f, at := g.field(from); f != nil {
		return f.reading(at)
	}
	return procstats.AbsentReading(from, procstats.ReasonNoSource)
}

// field returns where a group has its throttling; nil for the task's own group.
func (g *quotaGroup) field(id procstats.ID) (f *cgroupFile, at int) {
	if g.stat != nil {
		if at = g.stat.find(id); at >= 0 {
			return g.stat, at
		}
	}
	return nil, 0
}

// throttler returns the path of the group above the task's that throttled most; empty if none did.
func (q *cpuQuotas) throttler() string {
	path, most := "", 0.0
	for i := range q.groups {
		if seconds, ok := q.groups[i].throttled(procstats.CgroupCPUThrottled).Number(); ok && seconds > most {
			path, most = q.groups[i].path, seconds
		}
	}
	return path
}

func (q *cpuQuotas) close() error {
	var errs []error
	for _, g := range q.groups {
		if !g.readElsewhere {
			errs = append(errs, g.quota.close())
		}
		if g.stat != nil {
			errs = append(errs, g.stat.close())
		}
	}
	return errors.Join(errs...)
}
