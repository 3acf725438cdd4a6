// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"math"

	"github.com/tachograph/tacho/executor/proto"
)

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
func check(l *proto.Limits, pageSize int64) error {
	for _, bytes := range []struct {
		name  string
		value *int64
		least int64
	}{
		{"memory limit", l.MemoryMaxBytes, pageSize},
		{"memory.high", l.MemoryHighBytes, pageSize},
		{"swap limit", l.MemorySwapMaxBytes, 0},
	} {
		if bytes.value != nil && *bytes.value < bytes.least {
			return fmt.Errorf("%s %d: must be at least %d bytes", bytes.name, *bytes.value, bytes.least)
		}
	}
	switch {
	case l.CpuCores != nil && !(*l.CpuCores >= minQuota):
		return fmt.Errorf("CPU quota %v: must be at least %v cores", *l.CpuCores, minQuota)
	case l.CpuCores != nil && *l.CpuCores > maxQuota:
		return fmt.Errorf("CPU quota %v: must be at most %.0f cores", *l.CpuCores, maxQuota)
	case l.CpuWeight != nil && (*l.CpuWeight < minWeight || *l.CpuWeight > maxWeight):
		return fmt.Errorf("CPU weight %d: must be %d to %d", *l.CpuWeight, minWeight, maxWeight)
	case l.CpuShares != nil && (*l.CpuShares < minShares || *l.CpuShares > maxShares):
		return fmt.Errorf("CPU shares %d: must be %d to %d", *l.CpuShares, minShares, maxShares)
	case l.CpuWeight != nil && l.CpuShares != nil:
		return errors.New("CPU weight and CPU shares are the same setting on two scales: set only one")
	case l.PidsMax != nil && *l.PidsMax < 1:
		return fmt.Errorf("limit on processes %d: must be at least 1", *l.PidsMax)
	}
	for _, io := range l.GetIo() {
		if err := checkIO(io); err != nil {
			return err
		}
	}
	return nil
}

// keysOf are the limits of a device in the order and with the names of io.max.
func keysOf(l *proto.IOLimit) []ioKey {
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

func checkIO(l *proto.IOLimit) error {
	var major, minor uint32
	_, _ = fmt.Sscanf(l.Device, "%d:%d", &major, &minor) // what it has not read is 0, and more than it has read differs
	if l.Device != fmt.Sprintf("%d:%d", major, minor) {
		return fmt.Errorf("I/O limit: device %q is not major:minor", l.Device)
	}
	given := false
	for _, key := range keysOf(l) {
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

// weightOf returns the CPU weight on v2's scale. Shares keep their ratios: 1024 becomes 100. Values beyond the scale
// are clamped.
func weightOf(l *proto.Limits) (asked float64, weight int64, ok bool) {
	return onScale(l.CpuWeight, minWeight, usualWeight, maxWeight, l.CpuShares, usualShares)
}

// sharesOf returns the CPU shares on v1's scale.
func sharesOf(l *proto.Limits) (asked float64, shares int64, ok bool) {
	return onScale(l.CpuShares, minShares, usualShares, maxShares, l.CpuWeight, usualWeight)
}

// onScale returns a value, or else that of another scale by the ratio of what is usual on both, within bounds.
func onScale(own *int64, low, usual, high int64, other *int64, otherUsual float64) (asked float64, v int64, ok bool) {
	switch {
	case own != nil:
		return float64(*own), *own, true
	case other != nil:
		asked = float64(*other) * float64(usual) / otherUsual
		return asked, max(low, min(high, int64(math.Round(asked)))), true
	}
	return 0, 0, false
}

// quota returns a CPU quota as the kernel keeps it, in microseconds. Below 1 ms per 100 ms it takes a longer period.
func quota(cores float64) (quota, period int64) {
	quota = int64(math.Round(cores * defaultPeriod))
	if quota >= shortestQuota {
		return quota, defaultPeriod
	}
	return max(shortestQuota, int64(math.Round(cores*longestPeriod))), longestPeriod
}
