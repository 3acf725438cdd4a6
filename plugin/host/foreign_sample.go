// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// ToSample returns the sample of a message: the one in our own field, else what a driver of others measured. Our own field
// is not of another driver's making, so one that cannot be read is an error.
func ToSample(m *drivers.TaskStats) (*procstats.Sample, error) {
	if len(m.GetTachoSample()) == 0 {
		return foreignSample(m), nil
	}
	return wire.ToSample(m)
}

// reasonZero says why a 0 is not taken: a process that lives has memory.
const reasonZero = "the driver reports 0 bytes for a running task: it does not find its processes"

// foreignSample returns what a driver of others measured, under the names that mean the same or promise less. Such a
// driver does not say where it reads its resident memory: often it is a sum over processes, and shared pages then count
// once in each. It sends rates and no counter: cores stand under the headline's own name, and the shares of user and
// system mode have none.
func foreignSample(m *drivers.TaskStats) *procstats.Sample {
	s := &procstats.Sample{Stamp: kernel.Now()}
	s.Wall = time.Time{}
	if m.GetTimestamp() != nil {
		s.Wall = m.GetTimestamp().AsTime()
	}
	memory, cpu := m.GetAggResourceUsage().GetMemory(), m.GetAggResourceUsage().GetCpu()
	for _, field := range []struct {
		field drivers.MemoryUsage_Fields
		id    procstats.ID
		value uint64
	}{
		{drivers.MemoryUsage_USAGE, procstats.CgroupMemoryCurrent, memory.GetUsage()},
		{drivers.MemoryUsage_MAX_USAGE, procstats.CgroupMemoryPeak, memory.GetMaxUsage()},
		{drivers.MemoryUsage_RSS, procstats.PortableRSS, memory.GetRss()},
		{drivers.MemoryUsage_CACHE, procstats.CgroupMemoryFile, memory.GetCache()},
		{drivers.MemoryUsage_SWAP, procstats.CgroupMemorySwapCurrent, memory.GetSwap()},
		{drivers.MemoryUsage_KERNEL_USAGE, procstats.CgroupMemoryKernel, memory.GetKernelUsage()},
	} {
		if slices.Contains(memory.GetMeasuredFields(), field.field) {
			s.SetNumber(field.id, float64(field.value))
		}
	}
	for _, id := range []procstats.ID{procstats.PortableRSS, procstats.CgroupMemoryCurrent} {
		if bytes, ok := s.Task.Number(id); ok && bytes == 0 {
			s.SetAbsent(id, reasonZero)
		}
	}
	if measured(cpu, drivers.CPUUsage_PERCENT) {
		s.SetNumber(procstats.HeadlineCores, cpu.GetPercent()/100)
	}
	if measured(cpu, drivers.CPUUsage_THROTTLED_PERIODS) {
		s.SetNumber(procstats.CgroupCPUThrottledPeriods, float64(cpu.GetThrottledPeriods()))
	}
	if measured(cpu, drivers.CPUUsage_THROTTLED_TIME) {
		s.SetNumber(procstats.CgroupCPUThrottled, float64(cpu.GetThrottledTime())/1e9)
	}
	s.SetRead(procstats.SourceCgroup, s.Stamp)
	s.SetRead(procstats.SourcePortable, s.Stamp)
	addForeignProcesses(s, m.GetResourceUsageByPid())
	return s
}

func addForeignProcesses(s *procstats.Sample, byPID map[string]*drivers.TaskResourceUsage) {
	for text, usage := range byPID {
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 0 {
			continue
		}
		p := s.AddProcess(procstats.ProcessID{PID: pid}) // when it was started the driver does not say
		if memory := usage.GetMemory(); slices.Contains(memory.GetMeasuredFields(), drivers.MemoryUsage_RSS) {
			p.Readings.Put(procstats.NumberReading(procstats.PortableProcessRSS, float64(memory.GetRss())))
		}
		if cpu := usage.GetCpu(); measured(cpu, drivers.CPUUsage_PERCENT) {
			p.Readings.Put(procstats.NumberReading(procstats.HeadlineCores, cpu.GetPercent()/100))
		}
	}
	slices.SortFunc(s.Processes, func(a, b procstats.ProcessRow) int { return cmp.Compare(a.PID, b.PID) })
}

func measured(u *drivers.CPUUsage, f drivers.CPUUsage_Fields) bool {
	return slices.Contains(u.GetMeasuredFields(), f)
}
