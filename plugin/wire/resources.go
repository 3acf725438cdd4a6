// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// fromResources returns the message of a task's resources, part of which has a message of its own; nil of nil.
func fromResources(r *driver.Resources) *drivers.Resources {
	m := convert[drivers.Resources](r)
	if m != nil {
		m.AllocatedResources = convert[drivers.AllocatedTaskResources](r)
		m.AllocatedResources.Cpu = &drivers.AllocatedCpuResources{CpuShares: r.CPUShares}
		m.AllocatedResources.Memory = &drivers.AllocatedMemoryResources{MemoryMb: r.MemoryMB, MemoryMaxMb: r.MemoryMaxMB}
	}
	return m
}

// toResources returns the resources of a message; nil of nil.
func toResources(m *drivers.Resources) *driver.Resources {
	r := convert[driver.Resources](m)
	if allocated := m.GetAllocatedResources(); allocated != nil {
		r.CPUShares = allocated.GetCpu().GetCpuShares()
		r.MemoryMB, r.MemoryMaxMB = allocated.GetMemory().GetMemoryMb(), allocated.GetMemory().GetMemoryMaxMb()
		r.Networks = convert[driver.Resources](allocated).Networks
	}
	return r
}
