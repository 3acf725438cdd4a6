// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"math"
)

// Limits are the limits of a task. Fields that are nil or empty set nothing.
type Limits struct {
	// MemoryMax is the hard limit in bytes, page cache included; the kernel rounds it down to whole pages.
	MemoryMax *int64
	// MemoryHigh is where the kernel begins to slow the task down and to reclaim, in bytes; cgroup v2 only.
	MemoryHigh *int64
	// MemorySwapMax is the swap space the task may use, in bytes. On v1 the kernel limits memory and swap
	// together: it needs MemoryMax there.
	MemorySwapMax *int64
	// MemoryOOMGroup kills the whole task when the kernel kills one of its processes; v2 only, since Linux 4.19.
	MemoryOOMGroup *bool
	// CPUQuota is CPU time per wall time, in cores, from 0.001; the kernel keeps it per 100 ms.
	CPUQuota *float64
	// CPUWeight is the share of contended CPU, 1 to 10000, 100 being the default.
	CPUWeight *int64
	// CPUShares is the same on v1's scale, 2 to 262144, 1024 being the default. It excludes CPUWeight.
	CPUShares *int64
	// Cpuset is a list of CPUs such as 0-3,7.
	Cpuset string
	// PidsMax bounds processes and threads, from 1.
	PidsMax *int64
	// IO are limits of block devices.
	IO []IOLimit
}

// IOLimit bounds the I/O of a task on one block device. Fields that are nil set nothing.
type IOLimit struct {
	// Device is major:minor of a whole device; the kernel limits no partitions.
	Device                  string
	ReadBytesPerSecond      *int64
	WriteBytesPerSecond     *int64
	ReadOperationsPerSecond *int64
	// WriteOperationsPerSecond and WriteBytesPerSecond hold on v1 for direct and synchronous writes only.
	WriteOperationsPerSecond *int64
}

// Limit is one limit as it was requested and as the kernel holds it.
type Limit struct {
	// Name is the row of the table that reads it back; without a row, the kernel's file with device and key.
	Name string
	// Requested is nil if no limit was requested.
	Requested *float64
	// Effective is the lowest of the task's own limit and those of its visible ancestors; nil for none. For a
	// cpuset it is the number of CPUs.
	Effective *float64
	// RequestedText and EffectiveText are the lists of a cpuset.
	RequestedText, EffectiveText string
	// Where is the folder whose limit that is; empty if it is not visible.
	Where string
}

// The kernel's ranges.
const (
	// defaultPeriod and longestPeriod are of CPU quotas, in microseconds; a quota is at least 1 ms (kernel/sched:
	// min_cfs_quota_period, max_cfs_quota_period) and at most 2^44 µs (max_cfs_runtime).
	defaultPeriod, longestPeriod = 100_000, 1_000_000
	shortestQuota                = 1000
	minQuota                     = float64(shortestQuota) / longestPeriod
	maxQuota                     = float64(1<<44-1) / defaultPeriod

	minWeight, usualWeight, maxWeight = 1, 100, 10_000
	minShares, usualShares, maxShares = 2, 1024, 262_144
)

// SharesOf returns the CPU shares of a reservation in MHz, clamped to the kernel's range as the kernel does
// (kernel/sched: sched_group_set_shares).
func SharesOf(mhz int64) int64 { return max(minShares, min(maxShares, mhz)) }

// check rejects values that no kernel accepts, with a better message than EINVAL.
func (l *Limits) check(pageSize int64) error {
	for _, bytes := range []struct {
		name  string
		value *int64
		least int64
	}{
		{"memory limit", l.MemoryMax, pageSize},
		{"memory.high", l.MemoryHigh, pageSize},
		{"swap limit", l.MemorySwapMax, 0},
	} {
		if bytes.value != nil && *bytes.value < bytes.least {
			return fmt.Errorf("%s %d: must be at least %d bytes", bytes.name, *bytes.value, bytes.least)
		}
	}
	switch {
	case l.CPUQuota != nil && !(*l.CPUQuota >= minQuota):
		return fmt.Errorf("CPU quota %v: must be at least %v cores", *l.CPUQuota, minQuota)
	case l.CPUQuota != nil && *l.CPUQuota > maxQuota:
		return fmt.Errorf("CPU quota %v: must be at most %.0f cores", *l.CPUQuota, maxQuota)
	case l.CPUWeight != nil && (*l.CPUWeight < minWeight || *l.CPUWeight > maxWeight):
		return fmt.Errorf("CPU weight %d: must be %d to %d", *l.CPUWeight, minWeight, maxWeight)
	case l.CPUShares != nil && (*l.CPUShares < minShares || *l.CPUShares > maxShares):
		return fmt.Errorf("CPU shares %d: must be %d to %d", *l.CPUShares, minShares, maxShares)
	case l.CPUWeight != nil && l.CPUShares != nil:
		return errors.New("CPU weight and CPU shares are the same setting on two scales: set only one")
	case l.PidsMax != nil && *l.PidsMax < 1:
		return fmt.Errorf("limit on processes %d: must be at least 1", *l.PidsMax)
	}
	for i := range l.IO {
		if err := l.IO[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// keys are the limits of a device in the order and with the names of io.max.
func (l *IOLimit) keys() []ioKey {
	return []ioKey{
		{"rbps", "blkio.throttle.read_bps_device", l.ReadBytesPerSecond},
		{"wbps", "blkio.throttle.write_bps_device", l.WriteBytesPerSecond},
		{"riops", "blkio.throttle.read_iops_device", l.ReadOperationsPerSecond},
		{"wiops", "blkio.throttle.write_iops_device", l.WriteOperationsPerSecond},
	}
}

// ioKey is one limit of one device: its key in io.max (v2) and its file on v1.
type ioKey struct {
	name, fileV1 string
	value        *int64
}

func (l *IOLimit) check() error {
	var major, minor uint32
	_, _ = fmt.Sscanf(l.Device, "%d:%d", &major, &minor) // what it has not read is 0, and more than it has read differs
	if l.Device != fmt.Sprintf("%d:%d", major, minor) {
		return fmt.Errorf("I/O limit: device %q is not major:minor", l.Device)
	}
	given := false
	for _, key := range l.keys() {
		if key.value == nil {
			continue
		}
		given = true
		if *key.value < 1 {
			return fmt.Errorf("I/O limit of %s: %s %d: must be at least 1", l.Device, key.name, *key.value)
		}
	}
	if !given {
		return fmt.Errorf("I/O limit of %s: none of rbps, wbps, riops, wiops is set", l.Device)
	}
	return nil
}

// weight returns the CPU weight on v2's scale. Shares keep their ratios: 1024 becomes 100. Values beyond the scale
// are clamped.
func (l *Limits) weight() (asked float64, weight int64, ok bool) {
	switch {
	case l.CPUWeight != nil:
		return float64(*l.CPUWeight), *l.CPUWeight, true
	case l.CPUShares != nil:
		asked = float64(*l.CPUShares) * usualWeight / usualShares
		return asked, clamp(asked, minWeight, maxWeight), true
	}
	return 0, 0, false
}

// shares are the CPU shares on v1's scale.
func (l *Limits) shares() (asked float64, shares int64, ok bool) {
	switch {
	case l.CPUShares != nil:
		return float64(*l.CPUShares), *l.CPUShares, true
	case l.CPUWeight != nil:
		asked = float64(*l.CPUWeight) * usualShares / usualWeight
		return asked, clamp(asked, minShares, maxShares), true
	}
	return 0, 0, false
}

func clamp(x float64, low, high int64) int64 { return max(low, min(high, int64(math.Round(x)))) }

// quota returns a CPU quota as the kernel keeps it, in microseconds. Below 1 ms per 100 ms it takes a longer period.
func quota(cores float64) (quota, period int64) {
	quota = int64(math.Round(cores * defaultPeriod))
	if quota >= shortestQuota {
		return quota, defaultPeriod
	}
	return max(shortestQuota, int64(math.Round(cores*longestPeriod))), longestPeriod
}

func (l *Limits) empty() bool {
	return l.MemoryMax == nil && l.MemoryHigh == nil && l.MemorySwapMax == nil && l.MemoryOOMGroup == nil &&
		l.CPUQuota == nil && l.CPUWeight == nil && l.CPUShares == nil && l.Cpuset == "" && l.PidsMax == nil && len(l.IO) == 0
}
