// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/procstats"
)

// Usage has what was measured of a task or a process by the names of the fields of its message, and mapped_file:
// percent of one core, MHz, nanoseconds and bytes. Numbers that were not measured are missing.
type Usage map[string]float64

// TaskUsage returns what a task uses. Rates are measured from an earlier sample, which may be nil. coreMHz is the mean
// speed of the machine's cores, 0 if it is not known.
//
// RSS is anonymous memory and, because it cannot be reclaimed either, shared memory and tmpfs; the kernel counts both
// as file memory, so Cache leaves them out. Without a cgroup RSS is the sum over the processes, an upper bound.
func TaskUsage(s, before *procstats.Sample, coreMHz float64) Usage {
	u := Usage{}
	for name, id := range map[string]procstats.ID{
		"system_mode": procstats.CgroupCPUSystem, "user_mode": procstats.CgroupCPUUser,
	} {
		if cores, ok := s.Rate(before, id).Number(); ok {
			u[name] = 100 * cores
		}
	}
	if cores, ok := procstats.CoresSince(s, before).Number(); ok {
		u.setCores(cores, coreMHz)
	}
	if seconds, ok := s.Task.Number(procstats.CgroupCPUThrottled); ok {
		u["throttled_time"] = math.Floor(max(0, seconds*float64(time.Second)))
	}
	for name, id := range map[string]procstats.ID{
		"throttled_periods": procstats.CgroupCPUThrottledPeriods, "cache": procstats.CgroupMemoryFile,
		"max_usage": procstats.CgroupMemoryPeak, "kernel_usage": procstats.CgroupMemoryKernel,
		"usage": procstats.CgroupMemoryCurrent, "swap": procstats.CgroupMemorySwapCurrent,
		"mapped_file": procstats.CgroupMemoryFileMapped,
	} {
		u.setFirst(name, s.Task, id)
	}
	u.setFirst("rss", s.Task, procstats.CgroupMemoryAnon, procstats.TreeRSS, procstats.PortableRSS)
	_, anon := s.Task.Number(procstats.CgroupMemoryAnon)
	if shared, ok := s.Task.Number(procstats.CgroupMemoryShmem); ok && anon {
		u["rss"] += max(0, shared)
		if cache, ok := u["cache"]; ok {
			u["cache"] = max(0, cache-max(0, shared))
		}
	}
	return u
}

// ProcessUsage returns what the processes in a sample use, by PID, as TaskUsage does for the task.
func ProcessUsage(s, before *procstats.Sample, coreMHz float64) map[string]Usage {
	byPID := make(map[string]Usage, len(s.Processes))
	for i := range s.Processes {
		p, u := &s.Processes[i], Usage{}
		if cores, ok := processCores(s, before, p); ok {
			u.setCores(cores, coreMHz)
		}
		u.setFirst("rss", p.Readings, procstats.ProcessRSS, procstats.PortableProcessRSS)
		byPID[strconv.Itoa(p.PID)] = u
	}
	return byPID
}

func (u Usage) setCores(cores, coreMHz float64) {
	u["percent"] = 100 * cores
	if coreMHz > 0 {
		u["total_ticks"] = cores * coreMHz
	}
}

// setFirst sets a number to the first of some measurements that was read.
func (u Usage) setFirst(name string, readings procstats.Readings, ids ...procstats.ID) {
	for _, id := range ids {
		if number, ok := readings.Number(id); ok {
			u[name] = max(0, number)
			return
		}
	}
}

// Add adds what another uses. Only what both measured is a sum; the other numbers are removed.
func (u Usage) Add(other Usage) {
	for name := range u {
		if number, ok := other[name]; ok {
			u[name] += number
		} else {
			delete(u, name)
		}
	}
}

// message returns the usage as a message.
func (u Usage) message() *drivers.TaskResourceUsage {
	m := &drivers.TaskResourceUsage{Cpu: &drivers.CPUUsage{}, Memory: &drivers.MemoryUsage{}}
	u.fill(m.Cpu)
	u.fill(m.Memory)
	return m
}

// fill sets the fields of a message that were measured. Each has the name that its value in measured_fields has.
func (u Usage) fill(to proto.Message) {
	m := to.ProtoReflect()
	fields := m.Descriptor().Fields()
	list := fields.ByName("measured_fields")
	values := list.Enum().Values()
	for i := range values.Len() {
		name := strings.ToLower(string(values.Get(i).Name()))
		field := fields.ByName(protoreflect.Name(name))
		number, measured := u[name]
		switch {
		case !measured:
			continue
		case field.Kind() == protoreflect.DoubleKind:
			m.Set(field, protoreflect.ValueOfFloat64(number))
		default:
			m.Set(field, protoreflect.ValueOfUint64(uint64(number)))
		}
		m.Mutable(list).List().Append(protoreflect.ValueOfEnum(values.Get(i).Number()))
	}
}

// processCores returns how many cores a process kept busy.
func processCores(s, before *procstats.Sample, p *procstats.ProcessRow) (cores float64, ok bool) {
	for _, id := range []procstats.ID{procstats.ProcessCPU, procstats.PortableProcessCPU} {
		if _, read := p.Readings.Number(id); read && before != nil {
			return s.ProcessRate(before, p, id).Number()
		}
	}
	return 0, false
}
