// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/host"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
)

type (
	cpuFields    = []drivers.CPUUsage_Fields
	memoryFields = []drivers.MemoryUsage_Fields
)

// TestForeignStats holds that what a driver of others measured is in its sample, and comes out again.
func TestForeignStats(t *testing.T) {
	rss := memoryFields{drivers.MemoryUsage_RSS}
	sent := &drivers.TaskStats{
		AggResourceUsage: &drivers.TaskResourceUsage{
			Cpu: &drivers.CPUUsage{
				Percent: 150, SystemMode: 50, ThrottledPeriods: 3, ThrottledTime: 2_000_000_000, TotalTicks: 1,
				MeasuredFields: cpuFields{
					drivers.CPUUsage_THROTTLED_PERIODS, drivers.CPUUsage_THROTTLED_TIME, drivers.CPUUsage_PERCENT, drivers.CPUUsage_SYSTEM_MODE,
				},
			},
			Memory: &drivers.MemoryUsage{
				Rss: 1, Cache: 2, MaxUsage: 3, KernelUsage: 4, Usage: 5, Swap: 6,
				MeasuredFields: memoryFields{
					drivers.MemoryUsage_RSS, drivers.MemoryUsage_CACHE, drivers.MemoryUsage_MAX_USAGE,
					drivers.MemoryUsage_KERNEL_USAGE, drivers.MemoryUsage_SWAP,
				},
			},
		},
		ResourceUsageByPid: map[string]*drivers.TaskResourceUsage{
			"12": {
				Cpu:    &drivers.CPUUsage{Percent: 25, MeasuredFields: cpuFields{drivers.CPUUsage_PERCENT}},
				Memory: &drivers.MemoryUsage{Rss: 7, MeasuredFields: rss},
			},
			"3":    {Memory: &drivers.MemoryUsage{Rss: 8, MeasuredFields: rss}},
			"self": {},
		},
	}
	s, err := host.ToSample(sent)
	if err != nil {
		t.Fatal(err)
	}
	want := &drivers.TaskResourceUsage{
		Cpu: &drivers.CPUUsage{
			Percent: 150, ThrottledPeriods: 3, ThrottledTime: 2_000_000_000, TotalTicks: 3000,
			MeasuredFields: cpuFields{
				drivers.CPUUsage_THROTTLED_PERIODS, drivers.CPUUsage_THROTTLED_TIME, drivers.CPUUsage_PERCENT, drivers.CPUUsage_TOTAL_TICKS,
			},
		},
		// Usage is not measured.
		Memory: &drivers.MemoryUsage{Rss: 1, Cache: 2, MaxUsage: 3, KernelUsage: 4, Swap: 6, MeasuredFields: sent.AggResourceUsage.Memory.MeasuredFields},
	}
	if d := cmp.Diff(want, wire.ResourceUsage(s, nil, 2000), protocmp.Transform()); d != "" {
		t.Errorf("task (-want +got):\n%s", d)
	}
	processes := map[string]*drivers.TaskResourceUsage{
		"12": sent.ResourceUsageByPid["12"],
		"3":  {Cpu: &drivers.CPUUsage{}, Memory: sent.ResourceUsageByPid["3"].Memory},
	}
	if d := cmp.Diff(processes, wire.ProcessUsage(s, nil, 0), protocmp.Transform()); d != "" {
		t.Errorf("processes (-want +got):\n%s", d)
	}
}

// FuzzToSample reads stats of any content. What was read can be sent.
func FuzzToSample(f *testing.F) {
	encoded, err := proto.Marshal(&drivers.TaskStats{AggResourceUsage: &drivers.TaskResourceUsage{
		Cpu: &drivers.CPUUsage{Percent: 1, MeasuredFields: cpuFields{drivers.CPUUsage_PERCENT}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m drivers.TaskStats
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		sample, err := host.ToSample(&m)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v is not %v", err, driver.ErrInvalid)
			}
			return
		}
		// Readings may be NaN, and then differ from themselves: that they can be sent is enough.
		if _, err := proto.Marshal(wire.FromSample("t", sample, sample, 2000)); err != nil {
			t.Error(err)
		}
	})
}
