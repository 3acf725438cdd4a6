// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"strconv"
	"time"

	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/procstats"
)

// ResourceUsage returns what a task uses in Nomad's form. Rates are measured from an earlier sample, which may be nil.
// coreMHz is the mean speed of the machine's cores, 0 if it is not known.
func ResourceUsage(s, before *procstats.Sample, coreMHz float64) *drivers.TaskResourceUsage {
	cpu := &drivers.CPUUsage{}
	measured := func(f drivers.CPUUsage_Fields) { cpu.MeasuredFields = append(cpu.MeasuredFields, f) }
	if cores, ok := s.Rate(before, procstats.CgroupCPUSystem).Number(); ok {
		cpu.SystemMode = 100 * cores
		measured(drivers.CPUUsage_SYSTEM_MODE)
	}
	if cores, ok := s.Rate(before, procstats.CgroupCPUUser).Number(); ok {
		cpu.UserMode = 100 * cores
		measured(drivers.CPUUsage_USER_MODE)
	}
	if periods, ok := s.Task.Number(procstats.CgroupCPUThrottledPeriods); ok {
		cpu.ThrottledPeriods = uint64(periods)
		measured(drivers.CPUUsage_THROTTLED_PERIODS)
	}
	if seconds, ok := s.Task.Number(procstats.CgroupCPUThrottled); ok {
		cpu.ThrottledTime = uint64(max(0, seconds*float64(time.Second)))
		measured(drivers.CPUUsage_THROTTLED_TIME)
	}
	if cores, ok := procstats.CoresSince(s, before).Number(); ok {
		setCores(cpu, cores, coreMHz)
	}
	return &drivers.TaskResourceUsage{Cpu: cpu, Memory: memoryUsage(s.Task)}
}

// ProcessUsage returns what the processes in a sample use, by PID, as ResourceUsage does for the task.
func ProcessUsage(s, before *procstats.Sample, coreMHz float64) map[string]*drivers.TaskResourceUsage {
	byPID := make(map[string]*drivers.TaskResourceUsage, len(s.Processes))
	for i := range s.Processes {
		p := &s.Processes[i]
		usage := &drivers.TaskResourceUsage{Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{}}
		if cores, ok := processCores(s, before, p); ok {
			setCores(usage.Cpu, cores, coreMHz)
		}
		for _, id := range []procstats.ID{procstats.ProcessRSS, procstats.PortableProcessRSS} {
			if bytes, ok := p.Readings.Number(id); ok {
				usage.Memory.Rss = uint64(max(0, bytes))
				usage.Memory.MeasuredFields = []drivers.MemoryUsage_Fields{drivers.MemoryUsage_RSS}
				break
			}
		}
		byPID[strconv.Itoa(p.PID)] = usage
	}
	return byPID
}

func setCores(u *drivers.CPUUsage, cores, coreMHz float64) {
	u.Percent = 100 * cores
	u.MeasuredFields = append(u.MeasuredFields, drivers.CPUUsage_PERCENT)
	if coreMHz > 0 {
		u.TotalTicks = cores * coreMHz
		u.MeasuredFields = append(u.MeasuredFields, drivers.CPUUsage_TOTAL_TICKS)
	}
}

// memoryUsage returns what is measured of the task's memory. RSS is anonymous memory and, because it cannot be
// reclaimed either, shared memory and tmpfs; the kernel counts both as file memory, so Cache leaves them out. Without
// a cgroup RSS is the sum over the processes, an upper bound.
func memoryUsage(readings procstats.Readings) *drivers.MemoryUsage {
	u := &drivers.MemoryUsage{}
	set := func(field drivers.MemoryUsage_Fields, into *uint64, ids ...procstats.ID) {
		for _, id := range ids {
			if bytes, ok := readings.Number(id); ok {
				*into = uint64(max(0, bytes))
				u.MeasuredFields = append(u.MeasuredFields, field)
				return
			}
		}
	}
	set(drivers.MemoryUsage_RSS, &u.Rss, procstats.CgroupMemoryAnon, procstats.TreeRSS, procstats.PortableRSS)
	set(drivers.MemoryUsage_CACHE, &u.Cache, procstats.CgroupMemoryFile)
	set(drivers.MemoryUsage_MAX_USAGE, &u.MaxUsage, procstats.CgroupMemoryPeak)
	set(drivers.MemoryUsage_KERNEL_USAGE, &u.KernelUsage, procstats.CgroupMemoryKernel)
	set(drivers.MemoryUsage_USAGE, &u.Usage, procstats.CgroupMemoryCurrent)
	set(drivers.MemoryUsage_SWAP, &u.Swap, procstats.CgroupMemorySwapCurrent)
	if shared, ok := readings.Number(procstats.CgroupMemoryShmem); ok && hasAnon(readings) {
		bytes := uint64(max(0, shared))
		u.Rss += bytes
		u.Cache -= min(bytes, u.Cache)
	}
	return u
}

func hasAnon(readings procstats.Readings) bool {
	_, ok := readings.Number(procstats.CgroupMemoryAnon)
	return ok
}

// processCores returns how many cores a process kept busy.
func processCores(s, before *procstats.Sample, p *procstats.ProcessRow) (cores float64, ok bool) {
	for _, id := range []procstats.ID{procstats.ProcessCPU, procstats.PortableProcessCPU} {
		if _, read := p.Readings.Number(id); read && before != nil {
			return s.ProcessRate(before, p, id).Number()
		}
	}
	return 0, false
}
