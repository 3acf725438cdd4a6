// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"time"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/procstats"
)

// allocationUsage is the answer of Nomad's client/allocation/ID/stats, and ours beside it.
type allocationUsage struct {
	ResourceUsage resourceUsage
	Tasks         map[string]*taskUsage
	Timestamp     int64
	Tacho         *usageTacho
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

// memoryStats are bytes. Only what stands in Measured is real, and MappedFile where it is not 0: Nomad's command line
// prints a column for every word in Measured, and a number only for those it knows.
type memoryStats struct {
	RSS, Cache, Swap, MappedFile, Usage, MaxUsage, KernelUsage, KernelMaxUsage uint64
	Measured                                                                   []string
}

// cpuStats are percentages of one core, MHz, nanoseconds. Only what stands in Measured is real, and TotalTicks where it
// is not 0, for the reason above.
type cpuStats struct {
	SystemMode, UserMode, TotalTicks float64
	ThrottledPeriods, ThrottledTime  uint64
	Percent                          float64
	Measured                         []string
}

// usageTacho is what Nomad has no place for.
type usageTacho struct {
	Publishing bool `json:"publishing"`
	// Reason says why nothing is measured; empty where something is.
	Reason string                `json:"reason,omitempty"`
	Tasks  map[string]*taskTacho `json:"tasks"`
}

type taskTacho struct {
	Running bool `json:"running"`
	// Reason says why there is no reading, or only an old one.
	Reason          string   `json:"reason,omitempty"`
	AgeSeconds      *float64 `json:"age_seconds"`
	IntervalSeconds float64  `json:"interval_seconds"`
	Backlogged      int64    `json:"backlogged"`
	// Sources say when each was read; Guarantees how each measurement relates to the truth.
	Sources    map[string]sourceTacho         `json:"sources,omitempty"`
	Guarantees map[string]procstats.Guarantee `json:"guarantees,omitempty"`
	// Sample is procstats' own form: measurements, what is absent and why, processes, headline.
	Sample json.RawMessage `json:"sample"`
}

type sourceTacho struct {
	ReadAt     time.Time `json:"read_at"`
	AgeSeconds float64   `json:"age_seconds"`
}

// newAllocationUsage returns what tasks use. The sum is over the running ones.
func newAllocationUsage(usages map[string]allocation.Usage, publishing bool, reason string, now time.Time) *allocationUsage {
	shown := &allocationUsage{
		ResourceUsage: emptyUsage(), Tasks: map[string]*taskUsage{},
		Tacho: &usageTacho{Publishing: publishing, Tasks: map[string]*taskTacho{}},
	}
	if !publishing {
		shown.Tacho.Reason = reason
	}
	sum := driver.ResourceUsage{}
	first := true
	mapped, anyMapped := uint64(0), true
	for name, u := range usages {
		shown.Tacho.Tasks[name] = newTaskTacho(&u, now)
		if u.Stats == nil || !u.Running || u.Reason != "" {
			continue // an old reading is not what a task uses; it is in Tacho, with its age
		}
		task := newTaskUsage(&u)
		shown.Tasks[name] = task
		shown.Timestamp = max(shown.Timestamp, task.Timestamp)
		addUsage(&sum, &u.Stats.Aggregate, first)
		first = false
		file, ok := mappedFile(&u)
		mapped, anyMapped = mapped+file, anyMapped && ok
	}
	if !first {
		shown.ResourceUsage = newResourceUsage(&sum)
		if anyMapped {
			shown.ResourceUsage.MemoryStats.MappedFile = mapped
		}
	}
	return shown
}

func emptyUsage() resourceUsage { return newResourceUsage(&driver.ResourceUsage{}) }

func newTaskUsage(u *allocation.Usage) *taskUsage {
	shown := &taskUsage{
		ResourceUsage: newResourceUsage(&u.Stats.Aggregate), Timestamp: u.Stats.Timestamp.UnixNano(),
		Pids: make(map[string]resourceUsage, len(u.Stats.ByPID)),
	}
	if file, ok := mappedFile(u); ok {
		shown.ResourceUsage.MemoryStats.MappedFile = file
	}
	for pid, p := range u.Stats.ByPID {
		shown.Pids[pid] = newResourceUsage(&p)
	}
	return shown
}

func mappedFile(u *allocation.Usage) (bytes uint64, ok bool) {
	if u.Sample == nil {
		return 0, false
	}
	v, ok := u.Sample.Task.Number(procstats.CgroupMemoryFileMapped)
	return uint64(v), ok
}

// newResourceUsage turns the driver's form into Nomad's JSON. What is not measured is 0 there, and not in Measured.
func newResourceUsage(u *driver.ResourceUsage) resourceUsage {
	memory := &memoryStats{Measured: []string{}}
	for _, f := range u.Memory.Measured {
		m := &u.Memory
		switch f {
		case driver.MemoryRSS:
			memory.RSS, memory.Measured = m.RSS, append(memory.Measured, "RSS")
		case driver.MemoryCache:
			memory.Cache, memory.Measured = m.Cache, append(memory.Measured, "Cache")
		case driver.MemorySwap:
			memory.Swap, memory.Measured = m.Swap, append(memory.Measured, "Swap")
		case driver.MemoryUsageNow:
			memory.Usage, memory.Measured = m.Usage, append(memory.Measured, "Usage")
		case driver.MemoryMaxUsage:
			memory.MaxUsage, memory.Measured = m.MaxUsage, append(memory.Measured, "Max Usage")
		case driver.MemoryKernelUsage:
			memory.KernelUsage, memory.Measured = m.KernelUsage, append(memory.Measured, "Kernel Usage")
		case driver.MemoryKernelMaxUsage:
			memory.KernelMaxUsage, memory.Measured = m.KernelMaxUsage, append(memory.Measured, "Kernel Max Usage")
		}
	}
	return resourceUsage{MemoryStats: memory, CpuStats: newCPUStats(&u.CPU), DeviceStats: []struct{}{}}
}

func newCPUStats(u *driver.CPUUsage) *cpuStats {
	shown := &cpuStats{Measured: []string{}}
	for _, f := range u.Measured {
		switch f {
		case driver.CPUSystem:
			shown.SystemMode, shown.Measured = u.System, append(shown.Measured, "System Mode")
		case driver.CPUUser:
			shown.UserMode, shown.Measured = u.User, append(shown.Measured, "User Mode")
		case driver.CPUTotalTicks:
			shown.TotalTicks = u.TotalTicks
		case driver.CPUThrottledPeriods:
			shown.ThrottledPeriods, shown.Measured = u.ThrottledPeriods, append(shown.Measured, "Throttled Periods")
		case driver.CPUThrottledTime:
			shown.ThrottledTime, shown.Measured = uint64(max(0, u.ThrottledTime)), append(shown.Measured, "Throttled Time")
		case driver.CPUPercent:
			shown.Percent, shown.Measured = u.Percent, append(shown.Measured, "Percent")
		}
	}
	return shown
}

// addUsage adds a task to a sum. Measured is what all of them have: a sum without one of them is not the sum.
func addUsage(sum, u *driver.ResourceUsage, first bool) {
	c, m := &sum.CPU, &sum.Memory
	c.Percent += u.CPU.Percent
	c.System += u.CPU.System
	c.User += u.CPU.User
	c.TotalTicks += u.CPU.TotalTicks
	c.ThrottledPeriods += u.CPU.ThrottledPeriods
	c.ThrottledTime += u.CPU.ThrottledTime
	m.RSS += u.Memory.RSS
	m.Cache += u.Memory.Cache
	m.Swap += u.Memory.Swap
	m.Usage += u.Memory.Usage
	m.MaxUsage += u.Memory.MaxUsage
	m.KernelUsage += u.Memory.KernelUsage
	m.KernelMaxUsage += u.Memory.KernelMaxUsage
	if first {
		c.Measured, m.Measured = u.CPU.Measured, u.Memory.Measured
		return
	}
	c.Measured, m.Measured = common(c.Measured, u.CPU.Has), common(m.Measured, u.Memory.Has)
}

func common[F any](fields []F, has func(F) bool) []F {
	kept := make([]F, 0, len(fields))
	for _, f := range fields {
		if has(f) {
			kept = append(kept, f)
		}
	}
	return kept
}

func newTaskTacho(u *allocation.Usage, now time.Time) *taskTacho {
	shown := &taskTacho{
		Running: u.Running, Reason: u.Reason, IntervalSeconds: u.Interval.Seconds(), Backlogged: u.Backlogged,
		Sample: json.RawMessage("null"),
	}
	if u.Sample == nil {
		return shown
	}
	age := max(0, now.Sub(u.Sample.Wall).Seconds())
	shown.AgeSeconds = &age
	shown.Sample = procstats.AppendJSON(nil, u.Sample, u.Headlines)
	shown.Sources, shown.Guarantees = map[string]sourceTacho{}, map[string]procstats.Guarantee{}
	for i, stamp := range u.Sample.Sources {
		if !stamp.Zero() {
			shown.Sources[procstats.SourceID(i).String()] = sourceTacho{stamp.Wall, max(0, now.Sub(stamp.Wall).Seconds())}
		}
	}
	for _, reading := range u.Sample.Task {
		if m, ok := procstats.Lookup(reading.ID()); ok && reading.Present() && m.Guarantee != "" {
			shown.Guarantees[m.Name] = m.Guarantee
		}
	}
	return shown
}
