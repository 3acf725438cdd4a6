// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

func fromResources(r *driver.Resources) *drivers.Resources {
	if r == nil {
		return nil
	}
	return &drivers.Resources{
		AllocatedResources: &drivers.AllocatedTaskResources{
			Cpu:      &drivers.AllocatedCpuResources{CpuShares: r.CPUShares},
			Memory:   &drivers.AllocatedMemoryResources{MemoryMb: r.MemoryMB, MemoryMaxMb: r.MemoryMaxMB},
			Networks: each(r.Networks, fromNetwork),
		},
		LinuxResources: fromLinux(r.Linux),
		Ports:          each(r.Ports, fromPortMapping),
	}
}

func toResources(m *drivers.Resources) *driver.Resources {
	if m == nil {
		return nil
	}
	allocated := m.GetAllocatedResources()
	return &driver.Resources{
		CPUShares:   allocated.GetCpu().GetCpuShares(),
		MemoryMB:    allocated.GetMemory().GetMemoryMb(),
		MemoryMaxMB: allocated.GetMemory().GetMemoryMaxMb(),
		Networks:    each(allocated.GetNetworks(), toNetwork),
		Linux:       toLinux(m.GetLinuxResources()),
		Ports:       each(m.GetPorts(), toPortMapping),
	}
}

func fromLinux(l *driver.LinuxResources) *drivers.LinuxResources {
	if l == nil {
		return nil
	}
	return &drivers.LinuxResources{
		CpuPeriod: l.CPUPeriod, CpuQuota: l.CPUQuota, CpuShares: l.CPUShares,
		MemoryLimitBytes: l.MemoryLimitBytes, OomScoreAdj: l.OOMScoreAdj,
		CpusetCpus: l.CpusetCPUs, CpusetCgroup: l.CpusetCgroup, PercentTicks: l.PercentTicks,
	}
}

func toLinux(m *drivers.LinuxResources) *driver.LinuxResources {
	if m == nil {
		return nil
	}
	return &driver.LinuxResources{
		CPUPeriod: m.GetCpuPeriod(), CPUQuota: m.GetCpuQuota(), CPUShares: m.GetCpuShares(),
		MemoryLimitBytes: m.GetMemoryLimitBytes(), OOMScoreAdj: m.GetOomScoreAdj(),
		CpusetCPUs: m.GetCpusetCpus(), CpusetCgroup: m.GetCpusetCgroup(), PercentTicks: m.GetPercentTicks(),
	}
}

func fromNetwork(n driver.Network) *drivers.NetworkResource {
	return &drivers.NetworkResource{
		Device: n.Device, Cidr: n.CIDR, Ip: n.IP, Mbits: n.MBits,
		ReservedPorts: each(n.ReservedPorts, fromPort),
		DynamicPorts:  each(n.DynamicPorts, fromPort),
	}
}

func toNetwork(m *drivers.NetworkResource) driver.Network {
	return driver.Network{
		Device: m.GetDevice(), CIDR: m.GetCidr(), IP: m.GetIp(), MBits: m.GetMbits(),
		ReservedPorts: each(m.GetReservedPorts(), toPort),
		DynamicPorts:  each(m.GetDynamicPorts(), toPort),
	}
}

func fromPort(p driver.Port) *drivers.NetworkPort {
	return &drivers.NetworkPort{Label: p.Label, Value: p.Value}
}

func toPort(m *drivers.NetworkPort) driver.Port {
	return driver.Port{Label: m.GetLabel(), Value: m.GetValue()}
}

func fromPortMapping(p driver.PortMapping) *drivers.PortMapping {
	return &drivers.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIp: p.HostIP}
}

func toPortMapping(m *drivers.PortMapping) driver.PortMapping {
	return driver.PortMapping{Label: m.GetLabel(), Value: m.GetValue(), To: m.GetTo(), HostIP: m.GetHostIp()}
}
