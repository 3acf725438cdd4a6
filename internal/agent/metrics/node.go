// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"

	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
)

// nodeFamilies are the machine's numbers; without a reading, or a part of it, there are none.
func (c *Collector) nodeFamilies(ctx context.Context, now *snapshot.Agent, common *exposition.Labels) []exposition.Family {
	stats, err := c.agent.NodeStats(ctx)
	if err != nil || stats == nil {
		return nil
	}
	list := tachoNode(stats, common)
	if now.Config.Telemetry.NomadNames {
		list = append(list, nomadNode(stats, nomadNodeLabels(now, common))...)
	}
	return list
}

func tachoNode(s *node.Stats, common *exposition.Labels) []exposition.Family {
	var f families
	if _, missing := s.Reasons["uptime"]; !missing {
		f.gauge("tacho_node_uptime_seconds", "How long the machine has been up.", common, s.Uptime.Seconds())
	}
	if _, missing := s.Reasons["memory"]; !missing {
		f.gauge("tacho_node_memory_total_bytes", "Memory of the machine.", common, float64(s.Memory.Total))
		f.gauge("tacho_node_memory_available_bytes", "Memory that is available without swapping.", common, float64(s.Memory.Available))
		f.gauge("tacho_node_memory_used_bytes", "Memory in use.", common, float64(s.Memory.Used))
		f.gauge("tacho_node_memory_free_bytes", "Memory that is not used at all.", common, float64(s.Memory.Free))
	}
	for _, c := range s.CPU {
		cpu := common.With(exposition.Label{Name: "cpu", Value: c.Name})
		for _, mode := range []struct {
			name    string
			percent float64
		}{{"idle", c.Idle}, {"system", c.System}, {"user", c.User}} {
			f.gauge("tacho_node_cpu_ratio", "The share of each core's time since the previous reading, 0 to 1, by mode.",
				cpu.With(exposition.Label{Name: "mode", Value: mode.name}), mode.percent/100)
		}
	}
	for _, d := range s.Disks {
		labels := common.With(exposition.Label{Name: "device", Value: d.Device}, exposition.Label{Name: "mountpoint", Value: d.Mountpoint})
		f.gauge("tacho_node_disk_size_bytes", "Size of a file system.", labels, float64(d.Size))
		f.gauge("tacho_node_disk_used_bytes", "Used space of a file system.", labels, float64(d.Used))
		f.gauge("tacho_node_disk_available_bytes", "Space of a file system that is available to unprivileged users.", labels, float64(d.Available))
	}
	return f
}

// nomadNode are the names that dashboards for Nomad read. Its docs: reference/metrics, host metrics.
func nomadNode(s *node.Stats, labels *exposition.Labels) []exposition.Family {
	var f families
	if _, missing := s.Reasons["uptime"]; !missing {
		f.gauge("nomad_client_uptime", "Seconds the machine has been up.", labels, s.Uptime.Seconds())
	}
	if _, missing := s.Reasons["memory"]; !missing {
		f.gauge("nomad_client_host_memory_total", "Memory of the machine in bytes.", labels, float64(s.Memory.Total))
		f.gauge("nomad_client_host_memory_available", "Available memory in bytes.", labels, float64(s.Memory.Available))
		f.gauge("nomad_client_host_memory_used", "Used memory in bytes.", labels, float64(s.Memory.Used))
		f.gauge("nomad_client_host_memory_free", "Free memory in bytes.", labels, float64(s.Memory.Free))
	}
	for _, c := range s.CPU {
		l := labels.With(exposition.Label{Name: "cpu", Value: c.Name})
		f.gauge("nomad_client_host_cpu_total", "Use of a core in percent.", l, c.TotalPercent)
		f.gauge("nomad_client_host_cpu_total_percent", "Use of a core in percent.", l, c.TotalPercent)
		f.gauge("nomad_client_host_cpu_user", "Use of a core in user mode in percent.", l, c.User)
		f.gauge("nomad_client_host_cpu_system", "Use of a core in the kernel in percent.", l, c.System)
		f.gauge("nomad_client_host_cpu_idle", "Idle time of a core in percent.", l, c.Idle)
	}
	named := map[string]bool{}
	for _, d := range s.Disks {
		if named[d.Device] { // the same file system, mounted once more, or another subvolume
			continue
		}
		named[d.Device] = true
		l := labels.With(exposition.Label{Name: "disk", Value: d.Device})
		f.gauge("nomad_client_host_disk_size", "Size of a file system in bytes.", l, float64(d.Size))
		f.gauge("nomad_client_host_disk_used", "Used bytes of a file system.", l, float64(d.Used))
		f.gauge("nomad_client_host_disk_available", "Available bytes of a file system.", l, float64(d.Available))
		f.gauge("nomad_client_host_disk_used_percent", "Used share of a file system in percent.", l, d.UsedPercent)
		f.gauge("nomad_client_host_disk_inodes_percent", "Used inodes of a file system in percent.", l, d.InodesUsedPercent)
	}
	return f
}
