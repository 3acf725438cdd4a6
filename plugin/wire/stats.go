// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"fmt"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// FromTaskStats returns the message of a reading, our own field included where there is a sample.
func FromTaskStats(s *driver.TaskStats) *drivers.TaskStats {
	m := &drivers.TaskStats{
		Id:               s.ID,
		Timestamp:        fromTime(s.Timestamp),
		AggResourceUsage: fromUsage(&s.Aggregate),
		TachoSample:      driver.MarshalSample(s.Sample),
	}
	if len(s.ByPID) > 0 {
		m.ResourceUsageByPid = make(map[string]*drivers.TaskResourceUsage, len(s.ByPID))
		for pid, usage := range s.ByPID {
			m.ResourceUsageByPid[pid] = fromUsage(&usage)
		}
	}
	return m
}

// ToTaskStats returns the reading of a message. Our own field is not of another driver's making, so one that
// cannot be read is an error.
func ToTaskStats(m *drivers.TaskStats) (*driver.TaskStats, error) {
	sample, err := driver.UnmarshalSample(m.GetTachoSample())
	if err != nil {
		return nil, fmt.Errorf("read tacho_sample: %w: %w", err, driver.ErrInvalid)
	}
	s := &driver.TaskStats{
		ID:        m.GetId(),
		Timestamp: toTime(m.GetTimestamp()),
		Aggregate: toUsage(m.GetAggResourceUsage()),
		Sample:    sample,
	}
	if rows := m.GetResourceUsageByPid(); len(rows) > 0 {
		s.ByPID = make(map[string]driver.ResourceUsage, len(rows))
		for pid, usage := range rows {
			s.ByPID[pid] = toUsage(usage)
		}
	}
	return s, nil
}

func fromUsage(u *driver.ResourceUsage) *drivers.TaskResourceUsage {
	cpu, memory := &u.CPU, &u.Memory
	return &drivers.TaskResourceUsage{
		Cpu: &drivers.CPUUsage{
			SystemMode:       cpu.System,
			UserMode:         cpu.User,
			TotalTicks:       cpu.TotalTicks,
			ThrottledPeriods: cpu.ThrottledPeriods,
			ThrottledTime:    uint64(max(0, cpu.ThrottledTime)),
			Percent:          cpu.Percent,
			MeasuredFields: each(cpu.Measured, func(f driver.CPUField) drivers.CPUUsage_Fields {
				return drivers.CPUUsage_Fields(f)
			}),
		},
		Memory: &drivers.MemoryUsage{
			Rss:            memory.RSS,
			Cache:          memory.Cache,
			MaxUsage:       memory.MaxUsage,
			KernelUsage:    memory.KernelUsage,
			KernelMaxUsage: memory.KernelMaxUsage,
			Usage:          memory.Usage,
			Swap:           memory.Swap,
			MeasuredFields: each(memory.Measured, func(f driver.MemoryField) drivers.MemoryUsage_Fields {
				return drivers.MemoryUsage_Fields(f)
			}),
		},
	}
}

func toUsage(m *drivers.TaskResourceUsage) driver.ResourceUsage {
	cpu, memory := m.GetCpu(), m.GetMemory()
	return driver.ResourceUsage{
		CPU: driver.CPUUsage{
			System:           cpu.GetSystemMode(),
			User:             cpu.GetUserMode(),
			TotalTicks:       cpu.GetTotalTicks(),
			ThrottledPeriods: cpu.GetThrottledPeriods(),
			ThrottledTime:    toNanoseconds(cpu.GetThrottledTime()),
			Percent:          cpu.GetPercent(),
			Measured: each(cpu.GetMeasuredFields(), func(f drivers.CPUUsage_Fields) driver.CPUField {
				return driver.CPUField(f)
			}),
		},
		Memory: driver.MemoryUsage{
			RSS:            memory.GetRss(),
			Cache:          memory.GetCache(),
			MaxUsage:       memory.GetMaxUsage(),
			KernelUsage:    memory.GetKernelUsage(),
			KernelMaxUsage: memory.GetKernelMaxUsage(),
			Usage:          memory.GetUsage(),
			Swap:           memory.GetSwap(),
			Measured: each(memory.GetMeasuredFields(), func(f drivers.MemoryUsage_Fields) driver.MemoryField {
				return driver.MemoryField(f)
			}),
		},
	}
}

// toNanoseconds stops at the longest duration there is, 292 years.
func toNanoseconds(ns uint64) time.Duration {
	const longest = 1<<63 - 1
	return time.Duration(min(ns, longest))
}
