// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/agent/shape"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

// allocationUsage is the answer of Nomad's client/allocation/ID/stats, and ours beside it.
type allocationUsage struct {
	ResourceUsage resourceUsage
	Tasks         map[string]*taskUsage
	Timestamp     int64
	Tacho         shape.Usage[json.RawMessage]
}

type taskUsage struct {
	ResourceUsage resourceUsage
	Timestamp     int64
	Pids          map[string]resourceUsage
}

type resourceUsage struct {
	MemoryStats *memoryStats
	CpuStats    *cpuStats //nolint:revive // Nomad's key
	DeviceStats []struct{}
}

// memoryStats are bytes. Only what stands in Measured is real, and MappedFile if it is not 0: Nomad's command line
// prints a column for every word in Measured, and a number only for those it knows.
type memoryStats struct {
	RSS, Cache, Swap, MappedFile, Usage, MaxUsage, KernelUsage, KernelMaxUsage uint64
	Measured                                                                   []string
}

// cpuStats are percentages of one core, MHz, nanoseconds. Only what stands in Measured is real, and TotalTicks if it
// is not 0, for the reason above.
type cpuStats struct {
	SystemMode, UserMode, TotalTicks float64
	ThrottledPeriods, ThrottledTime  uint64
	Percent                          float64
	Measured                         []string
}

// reading is what one task used; its sample is the text of procstats.
type reading = shape.Reading[json.RawMessage]

// newAllocationUsage returns what tasks use. The sum is over the running ones.
func newAllocationUsage(usages map[string]*figures.Figures, now *snapshot.Agent, at time.Time) *allocationUsage {
	shown := &allocationUsage{
		ResourceUsage: emptyUsage(), Tasks: map[string]*taskUsage{},
		Tacho: shape.Usage[json.RawMessage]{Publishing: now.NotPublishing == "", Reason: now.NotPublishing, Tasks: map[string]*reading{}},
	}
	coreMHz := now.Node.Resources.CoreMHz
	var sum *drivers.TaskResourceUsage
	mapped, anyMapped := uint64(0), true
	for name, u := range usages {
		shown.Tacho.Tasks[name] = newReading(u, at)
		if !u.Fresh() {
			continue // an old reading is not what a task uses; it is in Tacho, with its age
		}
		used := wire.ResourceUsage(u.Sample, u.Before, coreMHz)
		task := newTaskUsage(u, used, coreMHz)
		shown.Tasks[name] = task
		shown.Timestamp = max(shown.Timestamp, task.Timestamp)
		if sum == nil {
			sum = used
		} else {
			addUsage(sum, used)
		}
		file, ok := mappedFile(u)
		mapped, anyMapped = mapped+file, anyMapped && ok
	}
	if sum != nil {
		shown.ResourceUsage = newResourceUsage(sum)
		if anyMapped {
			shown.ResourceUsage.MemoryStats.MappedFile = mapped
		}
	}
	return shown
}

func emptyUsage() resourceUsage { return newResourceUsage(nil) }

func newTaskUsage(u *figures.Figures, used *drivers.TaskResourceUsage, coreMHz float64) *taskUsage {
	shown := &taskUsage{
		ResourceUsage: newResourceUsage(used), Timestamp: u.Sample.Wall.UnixNano(),
		Pids: make(map[string]resourceUsage, len(u.Sample.Processes)),
	}
	if file, ok := mappedFile(u); ok {
		shown.ResourceUsage.MemoryStats.MappedFile = file
	}
	for pid, p := range wire.ProcessUsage(u.Sample, u.Before, coreMHz) {
		shown.Pids[pid] = newResourceUsage(p)
	}
	return shown
}

func mappedFile(u *figures.Figures) (bytes uint64, ok bool) {
	v, ok := u.Sample.Task.Number(procstats.CgroupMemoryFileMapped)
	return uint64(v), ok
}

// newResourceUsage turns the wire's form into Nomad's JSON. What is not measured is 0 there, and not in Measured.
func newResourceUsage(u *drivers.TaskResourceUsage) resourceUsage {
	memory := &memoryStats{Measured: []string{}}
	m := u.GetMemory()
	for _, f := range m.GetMeasuredFields() {
		switch f {
		case drivers.MemoryUsage_RSS:
			memory.RSS, memory.Measured = m.GetRss(), append(memory.Measured, "RSS")
		case drivers.MemoryUsage_CACHE:
			memory.Cache, memory.Measured = m.GetCache(), append(memory.Measured, "Cache")
		case drivers.MemoryUsage_SWAP:
			memory.Swap, memory.Measured = m.GetSwap(), append(memory.Measured, "Swap")
		case drivers.MemoryUsage_USAGE:
			memory.Usage, memory.Measured = m.GetUsage(), append(memory.Measured, "Usage")
		case drivers.MemoryUsage_MAX_USAGE:
			memory.MaxUsage, memory.Measured = m.GetMaxUsage(), append(memory.Measured, "Max Usage")
		case drivers.MemoryUsage_KERNEL_USAGE:
			memory.KernelUsage, memory.Measured = m.GetKernelUsage(), append(memory.Measured, "Kernel Usage")
		case drivers.MemoryUsage_KERNEL_MAX_USAGE:
			memory.KernelMaxUsage, memory.Measured = m.GetKernelMaxUsage(), append(memory.Measured, "Kernel Max Usage")
		}
	}
	return resourceUsage{MemoryStats: memory, CpuStats: newCPUStats(u.GetCpu()), DeviceStats: []struct{}{}}
}

func newCPUStats(u *drivers.CPUUsage) *cpuStats {
	shown := &cpuStats{Measured: []string{}}
	for _, f := range u.GetMeasuredFields() {
		switch f {
		case drivers.CPUUsage_SYSTEM_MODE:
			shown.SystemMode, shown.Measured = u.GetSystemMode(), append(shown.Measured, "System Mode")
		case drivers.CPUUsage_USER_MODE:
			shown.UserMode, shown.Measured = u.GetUserMode(), append(shown.Measured, "User Mode")
		case drivers.CPUUsage_TOTAL_TICKS:
			shown.TotalTicks = u.GetTotalTicks()
		case drivers.CPUUsage_THROTTLED_PERIODS:
			shown.ThrottledPeriods, shown.Measured = u.GetThrottledPeriods(), append(shown.Measured, "Throttled Periods")
		case drivers.CPUUsage_THROTTLED_TIME:
			shown.ThrottledTime, shown.Measured = u.GetThrottledTime(), append(shown.Measured, "Throttled Time")
		case drivers.CPUUsage_PERCENT:
			shown.Percent, shown.Measured = u.GetPercent(), append(shown.Measured, "Percent")
		}
	}
	return shown
}

// addUsage adds a task to a sum, which may be the first one's own. Measured is what all of them have: a sum without
// one of them is not the sum.
func addUsage(sum, u *drivers.TaskResourceUsage) {
	c, m := sum.Cpu, sum.Memory
	c.Percent += u.Cpu.Percent
	c.SystemMode += u.Cpu.SystemMode
	c.UserMode += u.Cpu.UserMode
	c.TotalTicks += u.Cpu.TotalTicks
	c.ThrottledPeriods += u.Cpu.ThrottledPeriods
	c.ThrottledTime += u.Cpu.ThrottledTime
	c.MeasuredFields = common(c.MeasuredFields, u.Cpu.MeasuredFields)
	m.Rss += u.Memory.Rss
	m.Cache += u.Memory.Cache
	m.Swap += u.Memory.Swap
	m.Usage += u.Memory.Usage
	m.MaxUsage += u.Memory.MaxUsage
	m.KernelUsage += u.Memory.KernelUsage
	m.KernelMaxUsage += u.Memory.KernelMaxUsage
	m.MeasuredFields = common(m.MeasuredFields, u.Memory.MeasuredFields)
}

func common[F comparable](fields, others []F) []F {
	return slices.DeleteFunc(fields, func(f F) bool { return !slices.Contains(others, f) })
}

func newReading(u *figures.Figures, at time.Time) *reading {
	shown := &reading{
		Running: u.Running, Reason: u.Reason, IntervalSeconds: u.Interval.Seconds(), Backlogged: u.Backlogged,
		HistoryDropped: u.HistoryDropped,
		Sample:         json.RawMessage("null"),
	}
	if u.Sample == nil {
		return shown
	}
	age := max(0, at.Sub(u.Sample.Wall).Seconds())
	shown.AgeSeconds = &age
	shown.Sample = procstats.AppendJSON(nil, u.Sample, u.Headlines)
	shown.Sources, shown.Guarantees = map[string]shape.SourceReading{}, procstats.Guarantees(u.Sample, u.Headlines)
	for source, read := range u.Sample.Sources.All() {
		shown.Sources[source.String()] = shape.SourceReading{ReadAt: read.Wall, AgeSeconds: max(0, at.Sub(read.Wall).Seconds())}
	}
	return shown
}
