// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"

	"github.com/tachograph/tacho/agent/node"
	"github.com/tachograph/tacho/agent/snapshot"
	"github.com/tachograph/tacho/exposition"
)

// nodeFamilies are the machine's numbers; without a reading, or a part of it, there are none.
func (c *Collector) nodeFamilies(ctx context.Context, now *snapshot.Agent, common *exposition.Labels) []exposition.Family {
	stats, err := c.agent.NodeStats(ctx)
	if err != nil || stats == nil {
		return nil
	}
	list := tachoNode(stats, common)
	if now.Config.Telemetry.NomadNames {
		n := now.Node
		list = append(list, nomadNode(stats, exposition.NewLabels(append(common.Pairs,
			exposition.Label{Name: "datacenter", Value: n.Datacenter}, exposition.Label{Name: "node_id", Value: n.ID})...))...)
	}
	return list
}

func tachoNode(s *node.Stats, common *exposition.Labels) []exposition.Family {
	all := ownFamilies()
	list := all[nodeUptime:]
	at := func(n own) *exposition.Family { return &list[n-nodeUptime] }
	if _, missing := s.Reasons["uptime"]; !missing {
		at(nodeUptime).Add(common, s.Uptime.Seconds())
	}
	if _, missing := s.Reasons["memory"]; !missing {
		at(nodeMemoryTotal).Add(common, float64(s.Memory.Total))
		at(nodeMemoryAvailable).Add(common, float64(s.Memory.Available))
		at(nodeMemoryUsed).Add(common, float64(s.Memory.Used))
		at(nodeMemoryFree).Add(common, float64(s.Memory.Free))
	}
	for _, c := range s.CPU {
		cpu := exposition.Label{Name: "cpu", Value: c.Name}
		at(nodeCPU).Add(common.With(cpu, exposition.Label{Name: "mode", Value: "idle"}), c.Idle/100)
		at(nodeCPU).Add(common.With(cpu, exposition.Label{Name: "mode", Value: "system"}), c.System/100)
		at(nodeCPU).Add(common.With(cpu, exposition.Label{Name: "mode", Value: "user"}), c.User/100)
	}
	for _, d := range s.Disks {
		labels := common.With(exposition.Label{Name: "device", Value: d.Device}, exposition.Label{Name: "mountpoint", Value: d.Mountpoint})
		at(nodeDiskSize).Add(labels, float64(d.Size))
		at(nodeDiskUsed).Add(labels, float64(d.Used))
		at(nodeDiskAvailable).Add(labels, float64(d.Available))
	}
	return list
}

// nomadNode are the names that dashboards for Nomad read. Its docs: reference/metrics, host metrics.
func nomadNode(s *node.Stats, labels *exposition.Labels) []exposition.Family {
	var list []exposition.Family
	gauge := func(name, help string, l *exposition.Labels, v float64) {
		for i := range list {
			if list[i].Name == name {
				list[i].Add(l, v)
				return
			}
		}
		list = append(list, exposition.Family{Name: name, Help: help, Samples: []exposition.Sample{{Labels: l, Value: v}}})
	}
	if _, missing := s.Reasons["uptime"]; !missing {
		gauge("nomad_client_uptime", "Seconds the machine has been up.", labels, s.Uptime.Seconds())
	}
	if _, missing := s.Reasons["memory"]; !missing {
		gauge("nomad_client_host_memory_total", "Memory of the machine in bytes.", labels, float64(s.Memory.Total))
		gauge("nomad_client_host_memory_available", "Available memory in bytes.", labels, float64(s.Memory.Available))
		gauge("nomad_client_host_memory_used", "Used memory in bytes.", labels, float64(s.Memory.Used))
		gauge("nomad_client_host_memory_free", "Free memory in bytes.", labels, float64(s.Memory.Free))
	}
	for _, c := range s.CPU {
		l := labels.With(exposition.Label{Name: "cpu", Value: c.Name})
		gauge("nomad_client_host_cpu_total_percent", "Use of a core in percent.", l, c.TotalPercent)
		gauge("nomad_client_host_cpu_user", "Use of a core in user mode in percent.", l, c.User)
		gauge("nomad_client_host_cpu_system", "Use of a core in the kernel in percent.", l, c.System)
		gauge("nomad_client_host_cpu_idle", "Idle time of a core in percent.", l, c.Idle)
	}
	for _, d := range s.Disks {
		l := labels.With(exposition.Label{Name: "disk", Value: d.Device})
		gauge("nomad_client_host_disk_size", "Size of a file system in bytes.", l, float64(d.Size))
		gauge("nomad_client_host_disk_used", "Used bytes of a file system.", l, float64(d.Used))
		gauge("nomad_client_host_disk_available", "Available bytes of a file system.", l, float64(d.Available))
		gauge("nomad_client_host_disk_used_percent", "Used share of a file system in percent.", l, d.UsedPercent)
		gauge("nomad_client_host_disk_inodes_percent", "Used inodes of a file system in percent.", l, d.InodesUsedPercent)
	}
	return list
}
