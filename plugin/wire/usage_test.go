// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"testing"
	"time"

	"google.golang.org/protobuf/testing/protocmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/procstats"
)

// at is a sample whose sources were all read at a moment after boot.
func at(moment time.Duration, numbers map[procstats.ID]float64, processes ...procstats.ProcessRow) *procstats.Sample {
	stamp := procstats.Stamp{Mono: moment, Wall: time.Unix(1000, 0).Add(moment)}
	s := &procstats.Sample{Stamp: stamp, Processes: processes}
	for source := procstats.SourceNone; source.Known(); source++ {
		s.SetRead(source, stamp)
	}
	for id, number := range numbers {
		s.SetNumber(id, number)
	}
	return s
}

func process(pid int, start uint64, cpu, rss float64) procstats.ProcessRow {
	row := procstats.ProcessRow{ProcessID: procstats.ProcessID{PID: pid, Start: start}}
	row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, cpu))
	row.Readings.Put(procstats.NumberReading(procstats.ProcessRSS, rss))
	return row
}

// fields of usages, as they are written in tests.
type (
	cpuFields    = []drivers.CPUUsage_Fields
	memoryFields = []drivers.MemoryUsage_Fields
)

func TestResourceUsage(t *testing.T) {
	first := at(10*time.Second, map[procstats.ID]float64{
		procstats.CgroupCPUUsage: 5, procstats.CgroupCPUUser: 3, procstats.CgroupMemoryAnon: 100,
	}, process(7, 1, 4, 64))
	second := at(12*time.Second, map[procstats.ID]float64{
		procstats.CgroupCPUUsage: 8, procstats.CgroupCPUUser: 4, procstats.CgroupCPUSystem: 1,
		procstats.CgroupCPUThrottledPeriods: 6, procstats.CgroupCPUThrottled: 1.5,
		procstats.CgroupMemoryAnon: 100, procstats.CgroupMemoryFile: 50, procstats.CgroupMemoryCurrent: 160,
		procstats.CgroupMemoryPeak: 200, procstats.CgroupMemoryKernel: 10,
	}, process(7, 1, 5, 64), process(8, 1101, 0.5, 32), process(9, 3, 100, 16))
	rss := memoryFields{drivers.MemoryUsage_RSS}
	cpu := cpuFields{drivers.CPUUsage_TOTAL_TICKS, drivers.CPUUsage_PERCENT}
	for _, test := range []struct {
		name      string
		s, before *procstats.Sample
		want      *drivers.TaskResourceUsage
		processes map[string]*drivers.TaskResourceUsage
	}{
		{
			"without an earlier sample", first, nil,
			&drivers.TaskResourceUsage{Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{Rss: 100, MeasuredFields: rss}},
			map[string]*drivers.TaskResourceUsage{
				"7": {Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{Rss: 64, MeasuredFields: rss}},
			},
		},
		{
			// 3 CPU seconds in 2 seconds; the system mode's counter is new and so has no rate.
			"with one", second, first,
			&drivers.TaskResourceUsage{
				Cpu: &drivers.CPUUsage{
					Percent: 150, TotalTicks: 3000, UserMode: 50, ThrottledPeriods: 6, ThrottledTime: 1_500_000_000,
					MeasuredFields: cpuFields{
						drivers.CPUUsage_USER_MODE, drivers.CPUUsage_TOTAL_TICKS, drivers.CPUUsage_THROTTLED_PERIODS,
						drivers.CPUUsage_THROTTLED_TIME, drivers.CPUUsage_PERCENT,
					},
				},
				Memory: &drivers.MemoryUsage{
					Rss: 100, Cache: 50, MaxUsage: 200, KernelUsage: 10, Usage: 160,
					MeasuredFields: memoryFields{
						drivers.MemoryUsage_RSS, drivers.MemoryUsage_CACHE, drivers.MemoryUsage_MAX_USAGE,
						drivers.MemoryUsage_KERNEL_USAGE, drivers.MemoryUsage_USAGE,
					},
				},
			},
			map[string]*drivers.TaskResourceUsage{
				"7": {
					Cpu:    &drivers.CPUUsage{Percent: 50, TotalTicks: 1000, MeasuredFields: cpu},
					Memory: &drivers.MemoryUsage{Rss: 64, MeasuredFields: rss},
				},
				// Began after the first sample: all of its time is of the window.
				"8": {
					Cpu:    &drivers.CPUUsage{Percent: 25, TotalTicks: 500, MeasuredFields: cpu},
					Memory: &drivers.MemoryUsage{Rss: 32, MeasuredFields: rss},
				},
				// Is older, so it was moved into the task, and what it used before is not the task's.
				"9": {Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{Rss: 16, MeasuredFields: rss}},
			},
		},
		{
			"shared memory", at(11*time.Second, map[procstats.ID]float64{
				procstats.CgroupMemoryAnon: 100, procstats.CgroupMemoryShmem: 300, procstats.CgroupMemoryFile: 350,
			}), nil,
			&drivers.TaskResourceUsage{Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{
				Rss: 400, Cache: 50, MeasuredFields: memoryFields{drivers.MemoryUsage_RSS, drivers.MemoryUsage_CACHE},
			}}, nil,
		},
		{
			"a counter that went down", at(13*time.Second, map[procstats.ID]float64{procstats.CgroupCPUUsage: 1}), second,
			&drivers.TaskResourceUsage{Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{}}, nil,
		},
		{
			"without a cgroup", at(11*time.Second, map[procstats.ID]float64{procstats.TreeCPU: 1.5, procstats.TreeRSS: 7}),
			at(10*time.Second, map[procstats.ID]float64{procstats.TreeCPU: 1}),
			&drivers.TaskResourceUsage{
				Cpu:    &drivers.CPUUsage{Percent: 50, TotalTicks: 1000, MeasuredFields: cpu},
				Memory: &drivers.MemoryUsage{Rss: 7, MeasuredFields: rss},
			}, nil,
		},
		{
			"a PID that is used again", at(11*time.Second, nil, process(7, 1050, 0.25, 1)),
			at(10*time.Second, nil, process(7, 1, 50, 1)),
			&drivers.TaskResourceUsage{Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{}},
			map[string]*drivers.TaskResourceUsage{
				"7": {
					Cpu:    &drivers.CPUUsage{Percent: 25, TotalTicks: 500, MeasuredFields: cpu},
					Memory: &drivers.MemoryUsage{Rss: 1, MeasuredFields: rss},
				},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			stats := TaskStats("", test.s, test.before, 2000)
			testkit.Diff(t, "task", test.want, stats.GetAggResourceUsage(), protocmp.Transform())
			processes := stats.GetResourceUsageByPid()
			if len(test.processes)+len(processes) == 0 {
				return
			}
			testkit.Diff(t, "processes", test.processes, processes, protocmp.Transform())
		})
	}
}
