// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// meter turns the cumulative readings of one task's samples into the hosts' form. It belongs to one stream.
type meter struct {
	id      string
	coreMHz float64 // 0 where not known
	maxRows int
	before  *procstats.Sample
}

// shortestWindow is the time in seconds over which a rate means anything.
const shortestWindow = 0.02

// cpuReadings are the task's CPU counters in their order of preference, as for the headline.
func cpuReadings() []procstats.ID {
	return []procstats.ID{procstats.CgroupCPUUsage, procstats.TreeCPU, procstats.RusageCPU, procstats.PortableCPU}
}

// stats returns the reading of a sample; rates are over the time since the sample before it.
func (m *meter) stats(s *procstats.Sample) *TaskStats {
	before := m.before
	m.before = s
	return &TaskStats{
		ID:        m.id,
		Timestamp: s.Wall,
		Aggregate: ResourceUsage{CPU: m.cpu(s, before), Memory: memoryOf(s.Task)},
		ByPID:     m.rows(s, before),
		Sample:    s,
	}
}

func (m *meter) cpu(s, before *procstats.Sample) CPUUsage {
	var u CPUUsage
	for _, id := range cpuReadings() {
		if cores, ok := rate(s, before, id); ok {
			m.setCores(&u, cores)
			break
		}
	}
	if cores, ok := rate(s, before, procstats.CgroupCPUUser); ok {
		u.User = 100 * cores
		u.Measured = append(u.Measured, CPUUser)
	}
	if cores, ok := rate(s, before, procstats.CgroupCPUSystem); ok {
		u.System = 100 * cores
		u.Measured = append(u.Measured, CPUSystem)
	}
	if periods, ok := s.Task.Number(procstats.CgroupCPUThrottledPeriods); ok {
		u.ThrottledPeriods = uint64(periods)
		u.Measured = append(u.Measured, CPUThrottledPeriods)
	}
	if seconds, ok := s.Task.Number(procstats.CgroupCPUThrottled); ok {
		u.ThrottledTime = time.Duration(seconds * float64(time.Second))
		u.Measured = append(u.Measured, CPUThrottledTime)
	}
	slices.Sort(u.Measured)
	return u
}

func (m *meter) setCores(u *CPUUsage, cores float64) {
	u.Percent = 100 * cores
	u.Measured = append(u.Measured, CPUPercent)
	if m.coreMHz > 0 {
		u.TotalTicks = cores * m.coreMHz
		u.Measured = append(u.Measured, CPUTotalTicks)
	}
}

// rate is how fast a counter of the task in seconds grew, in cores. It is not measured without an earlier sample,
// and where the counter's source began anew.
func rate(s, before *procstats.Sample, id procstats.ID) (cores float64, ok bool) {
	if before == nil {
		return 0, false
	}
	now, okNow := s.Task.Number(id)
	then, okThen := before.Task.Number(id)
	if !okNow || !okThen || now < then {
		return 0, false
	}
	seconds := elapsed(s, before, id)
	return (now - then) / seconds, seconds >= shortestWindow
}

// elapsed is the time between the reads of a measurement's source, in seconds.
func elapsed(s, before *procstats.Sample, id procstats.ID) float64 {
	now, okNow := s.ReadAt(id)
	then, okThen := before.ReadAt(id)
	if !okNow || !okThen {
		return 0
	}
	return (now.Mono - then.Mono).Seconds()
}

func memoryOf(readings procstats.Readings) MemoryUsage {
	var u MemoryUsage
	set := func(field MemoryField, into *uint64, ids ...procstats.ID) {
		for _, id := range ids {
			if bytes, ok := readings.Number(id); ok {
				*into = uint64(max(0, bytes))
				u.Measured = append(u.Measured, field)
				return
			}
		}
	}
	// Without a cgroup RSS is the sum over the processes, an upper bound. MaxUsage has no stand-in: the largest sum
	// that was sampled is no peak.
	set(MemoryRSS, &u.RSS, procstats.CgroupMemoryAnon, procstats.TreeRSS, procstats.PortableRSS)
	set(MemoryCache, &u.Cache, procstats.CgroupMemoryFile)
	set(MemoryMaxUsage, &u.MaxUsage, procstats.CgroupMemoryPeak)
	set(MemoryKernelUsage, &u.KernelUsage, procstats.CgroupMemoryKernel)
	set(MemoryUsageNow, &u.Usage, procstats.CgroupMemoryCurrent)
	set(MemorySwap, &u.Swap, procstats.CgroupMemorySwapCurrent)
	return u
}

// rows are the live processes, at most maxRows: those that used most CPU since the sample before, then those with
// most memory.
func (m *meter) rows(s, before *procstats.Sample) map[string]ResourceUsage {
	if len(s.Processes) == 0 || m.maxRows == 0 {
		return nil
	}
	type row struct {
		pid   int
		usage ResourceUsage
	}
	rows := make([]row, len(s.Processes))
	for i := range s.Processes {
		rows[i] = row{s.Processes[i].PID, m.process(s, before, &s.Processes[i])}
	}
	if len(rows) > m.maxRows {
		slices.SortFunc(rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(b.usage.CPU.Percent, a.usage.CPU.Percent),
				cmp.Compare(b.usage.Memory.RSS, a.usage.Memory.RSS), cmp.Compare(a.pid, b.pid))
		})
		rows = rows[:m.maxRows]
	}
	byPID := make(map[string]ResourceUsage, len(rows))
	for _, r := range rows {
		byPID[strconv.Itoa(r.pid)] = r.usage
	}
	return byPID
}

func (m *meter) process(s, before *procstats.Sample, p *procstats.ProcessRow) ResourceUsage {
	var u ResourceUsage
	if cores, ok := processRate(s, before, p); ok {
		m.setCores(&u.CPU, cores)
		slices.Sort(u.CPU.Measured)
	}
	for _, id := range []procstats.ID{procstats.ProcessRSS, procstats.PortableProcessRSS} {
		if bytes, ok := p.Readings.Number(id); ok {
			u.Memory.RSS = uint64(max(0, bytes))
			u.Memory.Measured = []MemoryField{MemoryRSS}
			break
		}
	}
	return u
}

// processRate is how many cores a process kept busy since the sample before. One that began since then is measured
// from 0: all it ever used, it used in that time.
func processRate(s, before *procstats.Sample, p *procstats.ProcessRow) (cores float64, ok bool) {
	if before == nil {
		return 0, false
	}
	for _, id := range []procstats.ID{procstats.ProcessCPU, procstats.PortableProcessCPU} {
		now, ok := p.Readings.Number(id)
		if !ok {
			continue
		}
		then, known := earlier(before, p.ProcessID, id)
		if !known && !bornSince(before, p.ProcessID) {
			return 0, false
		}
		seconds := elapsed(s, before, id)
		return (now - then) / seconds, seconds >= shortestWindow && now >= then
	}
	return 0, false
}

// earlier is a counter of the same process in an earlier sample, whose rows are ordered by PID.
func earlier(before *procstats.Sample, id procstats.ProcessID, counter procstats.ID) (value float64, ok bool) {
	i, found := slices.BinarySearchFunc(before.Processes, id.PID, func(row procstats.ProcessRow, pid int) int {
		return cmp.Compare(row.PID, pid)
	})
	if !found || before.Processes[i].ProcessID != id {
		return 0, false
	}
	return before.Processes[i].Readings.Number(counter)
}

// bornSince reports whether a process that an earlier sample does not have started after it; else it was moved into
// the task, and what it used before is not the task's. Start times count ticks of 10 ms since boot, as
// CLOCK_MONOTONIC does but for the time that the machine was suspended.
func bornSince(before *procstats.Sample, id procstats.ProcessID) bool {
	const tick = 10 * time.Millisecond
	return before.Omitted == 0 && len(before.Processes) > 0 && time.Duration(id.Start)*tick >= before.Mono-tick
}
