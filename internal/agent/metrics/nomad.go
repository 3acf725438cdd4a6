// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"slices"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

// nomadFamily is one metric under the name that dashboards and autoscalers for Nomad read. Names, units and types
// are those of its docs: reference/metrics, allocation metrics.
type nomadFamily struct {
	name, help string
	kind       exposition.Type
	// value is ok only if something was measured. Nomad has 0 there for CPU.
	value func(r *nomadRow) (v float64, ok bool)
}

// nomadRow is a task with what it uses in Nomad's form.
type nomadRow struct {
	*row
	// used is nil without a reading of the running task, or with only an old one.
	used *drivers.TaskResourceUsage
}

func newNomadRow(r *row, coreMHz float64) nomadRow {
	if !r.usage.Fresh() {
		return nomadRow{row: r}
	}
	return nomadRow{row: r, used: wire.ResourceUsage(r.usage.Sample, r.usage.Before, coreMHz)}
}

// nomadFamilies are a task's metrics under Nomad's names. They exist per allocation only.
func nomadFamilies(rows []row, detail string, coreMHz float64) []exposition.Family {
	if detail != DetailAlloc {
		return nil
	}
	used := make([]nomadRow, len(rows))
	for i := range rows {
		used[i] = newNomadRow(&rows[i], coreMHz)
	}
	list := nomadTable(coreMHz)
	families := make([]exposition.Family, len(list))
	for i, n := range list {
		families[i] = exposition.Family{Name: n.name, Help: n.help, Type: n.kind}
		for j := range used {
			if v, ok := n.value(&used[j]); ok {
				families[i].Add(used[j].labels, v)
			}
		}
	}
	return families
}

func nomadTable(coreMHz float64) []nomadFamily {
	const p = "nomad_client_allocs_"
	return []nomadFamily{
		{p + "cpu_total_percent", "CPU use in percent of one core.", exposition.Gauge, cpu(drivers.CPUUsage_PERCENT, func(u *drivers.CPUUsage) float64 { return u.Percent })},
		{p + "cpu_system", "CPU use in the kernel in percent of one core.", exposition.Gauge, cpu(drivers.CPUUsage_SYSTEM_MODE, func(u *drivers.CPUUsage) float64 { return u.SystemMode })},
		{p + "cpu_user", "CPU use in user mode in percent of one core.", exposition.Gauge, cpu(drivers.CPUUsage_USER_MODE, func(u *drivers.CPUUsage) float64 { return u.UserMode })},
		{p + "cpu_throttled_time", "Nanoseconds throttled by the quota, since the start.", exposition.Gauge, cpu(drivers.CPUUsage_THROTTLED_TIME, func(u *drivers.CPUUsage) float64 { return float64(u.ThrottledTime) })},
		{p + "cpu_throttled_periods", "Periods throttled by the quota, since the start.", exposition.Gauge, cpu(drivers.CPUUsage_THROTTLED_PERIODS, func(u *drivers.CPUUsage) float64 { return float64(u.ThrottledPeriods) })},
		{p + "cpu_total_ticks", "CPU use in MHz.", exposition.Gauge, cpu(drivers.CPUUsage_TOTAL_TICKS, func(u *drivers.CPUUsage) float64 { return u.TotalTicks })},
		{p + "cpu_total_ticks_count", "MHz-seconds used since the start.", exposition.Counter, ticksCount(coreMHz)},
		{p + "cpu_allocated", "MHz that the job file reserves.", exposition.Gauge, running(func(r *nomadRow) float64 { return float64(r.task.Resources.CPU) })},
		{p + "memory_rss", "Anonymous and shared memory in bytes.", exposition.Gauge, memory(drivers.MemoryUsage_RSS, func(u *drivers.MemoryUsage) uint64 { return u.Rss })},
		{p + "memory_cache", "Page cache in bytes.", exposition.Gauge, memory(drivers.MemoryUsage_CACHE, func(u *drivers.MemoryUsage) uint64 { return u.Cache })},
		{p + "memory_swap", "Swapped bytes.", exposition.Gauge, memory(drivers.MemoryUsage_SWAP, func(u *drivers.MemoryUsage) uint64 { return u.Swap })},
		{p + "memory_mapped_file", "Mapped page cache in bytes.", exposition.Gauge, measured(procstats.CgroupMemoryFileMapped)},
		{p + "memory_usage", "Charged bytes.", exposition.Gauge, memory(drivers.MemoryUsage_USAGE, func(u *drivers.MemoryUsage) uint64 { return u.Usage })},
		{p + "memory_max_usage", "The most bytes ever charged.", exposition.Gauge, memory(drivers.MemoryUsage_MAX_USAGE, func(u *drivers.MemoryUsage) uint64 { return u.MaxUsage })},
		{p + "memory_kernel_usage", "Kernel memory in bytes.", exposition.Gauge, memory(drivers.MemoryUsage_KERNEL_USAGE, func(u *drivers.MemoryUsage) uint64 { return u.KernelUsage })},
		{p + "memory_kernel_max_usage", "The most kernel memory in bytes.", exposition.Gauge, memory(drivers.MemoryUsage_KERNEL_MAX_USAGE, func(u *drivers.MemoryUsage) uint64 { return u.KernelMaxUsage })},
		{p + "memory_allocated", "Bytes that the job file reserves.", exposition.Gauge, running(func(r *nomadRow) float64 { return float64(r.task.Resources.MemoryMB) * (1 << 20) })},
		{p + "memory_max_allocated", "Bytes that the job file allows at most.", exposition.Gauge, running(func(r *nomadRow) float64 { return float64(r.task.Resources.MemoryMaxMB) * (1 << 20) })},
		{p + "restart", "Restarts of the task.", exposition.Counter, func(r *nomadRow) (float64, bool) { return restarts(r.row), true }},
		{p + "oom_killed", "OOM kills of the task.", exposition.Counter, func(r *nomadRow) (float64, bool) { v := oomKills(r.row); return v, v == v }},
		{p + "running", "1 for an allocation that runs.", exposition.Counter, status(allocation.Running)},
		{p + "complete", "1 for an allocation that has completed.", exposition.Counter, status(allocation.Complete)},
		{p + "failed", "1 for an allocation that has failed.", exposition.Counter, status(allocation.Failed)},
	}
}

func cpu(field drivers.CPUUsage_Fields, value func(*drivers.CPUUsage) float64) func(*nomadRow) (float64, bool) {
	return func(r *nomadRow) (float64, bool) {
		u := r.used.GetCpu()
		if !slices.Contains(u.GetMeasuredFields(), field) {
			return 0, false
		}
		return value(u), true
	}
}

func memory(field drivers.MemoryUsage_Fields, value func(*drivers.MemoryUsage) uint64) func(*nomadRow) (float64, bool) {
	return func(r *nomadRow) (float64, bool) {
		u := r.used.GetMemory()
		if !slices.Contains(u.GetMeasuredFields(), field) {
			return 0, false
		}
		return float64(value(u)), true
	}
}

func measured(id procstats.ID) func(*nomadRow) (float64, bool) {
	return func(r *nomadRow) (float64, bool) {
		if r.used == nil {
			return 0, false
		}
		return r.usage.Sample.Task.Number(id)
	}
}

// ticksCount is the CPU time in the unit that this counter has at an interval of one second, at any interval.
func ticksCount(coreMHz float64) func(*nomadRow) (float64, bool) {
	return func(r *nomadRow) (float64, bool) {
		if r.used == nil || coreMHz <= 0 {
			return 0, false
		}
		for _, h := range r.usage.Headlines {
			if h.ID == procstats.HeadlineCPU {
				seconds, ok := h.Reading.Number()
				return seconds * coreMHz, ok
			}
		}
		return 0, false
	}
}

// running is a promise of the job file, while the task runs and if it is made.
func running(value func(*nomadRow) float64) func(*nomadRow) (float64, bool) {
	return func(r *nomadRow) (float64, bool) {
		v := value(r)
		return v, v > 0 && r.usage.Running
	}
}

func status(s allocation.Status) func(*nomadRow) (float64, bool) {
	return func(r *nomadRow) (float64, bool) { return 1, r.alloc.ClientStatus == s }
}
