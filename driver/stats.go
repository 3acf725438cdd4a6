// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// TaskStats is one reading of what a task uses.
type TaskStats struct {
	ID string
	// Timestamp is when the kernel was read, not when the message was made.
	Timestamp time.Time
	Aggregate ResourceUsage
	// ByPID has rows for live processes, in the hosts' form; nil where there are none.
	ByPID map[string]ResourceUsage
	// Sample is the whole reading; nil from a driver that is not ours.
	Sample *procstats.Sample
}

// ResourceUsage is the hosts' form of a reading.
type ResourceUsage struct {
	CPU    CPUUsage
	Memory MemoryUsage
}

// CPUField names a field of CPUUsage, by the hosts' numbers.
type CPUField int32

// The fields of CPUUsage.
const (
	CPUSystem           CPUField = 0
	CPUUser             CPUField = 1
	CPUTotalTicks       CPUField = 2
	CPUThrottledPeriods CPUField = 3
	CPUThrottledTime    CPUField = 4
	CPUPercent          CPUField = 5
)

// CPUUsage is CPU use since the reading before. Only the fields in Measured are real.
type CPUUsage struct {
	// Percent, System and User are percentages of one core: 200 is two cores busy.
	Percent, System, User float64
	// TotalTicks is the use in MHz of this node's cores.
	TotalTicks float64
	// ThrottledPeriods and ThrottledTime are totals since the start.
	ThrottledPeriods uint64
	ThrottledTime    time.Duration
	Measured         []CPUField
}

// Has reports whether a field is measured.
func (u *CPUUsage) Has(f CPUField) bool { return slices.Contains(u.Measured, f) }

// MemoryField names a field of MemoryUsage, by the hosts' numbers.
type MemoryField int32

// The fields of MemoryUsage.
const (
	MemoryRSS            MemoryField = 0
	MemoryCache          MemoryField = 1
	MemoryMaxUsage       MemoryField = 2
	MemoryKernelUsage    MemoryField = 3
	MemoryKernelMaxUsage MemoryField = 4
	MemoryUsageNow       MemoryField = 5
	MemorySwap           MemoryField = 6
)

// MemoryUsage is memory in bytes. Only the fields in Measured are real.
type MemoryUsage struct {
	// RSS is anonymous memory, Cache the page cache, Usage everything charged, MaxUsage the most ever charged.
	RSS, Cache, Swap, Usage, MaxUsage, KernelUsage, KernelMaxUsage uint64
	Measured                                                       []MemoryField
}

// Has reports whether a field is measured.
func (u *MemoryUsage) Has(f MemoryField) bool { return slices.Contains(u.Measured, f) }
