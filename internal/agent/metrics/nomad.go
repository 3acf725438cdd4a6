// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"math"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

// nomadFamilies are a task's metrics under Nomad's names. They exist per allocation only.
func nomadFamilies(rows []row, coreMHz float64) []exposition.Family {
	for i := range rows {
		if r := &rows[i]; r.usage.Fresh() {
			r.used = wire.TaskUsage(r.usage.Sample, r.usage.Before, coreMHz)
		}
	}
	list := nomadColumns(coreMHz)
	families := make([]exposition.Family, len(list))
	for i, n := range list {
		families[i] = exposition.Family{Name: n.name, Help: n.help, Type: n.kind}
		for j := range rows {
			if v := n.own(&rows[j]); !math.IsNaN(v) {
				families[i].Add(rows[j].labels, v)
			}
		}
	}
	return families
}

// nomadColumns are the metrics of tasks that dashboards and autoscalers for Nomad read. Names, units and types are
// those of its docs: reference/metrics, allocation metrics. Unlike there, what was not measured is not 0.
func nomadColumns(coreMHz float64) []column {
	const counter, gauge = exposition.Counter, exposition.Gauge
	cpuReserved := reserved(func(r *job.Resources) int { return r.CPU })
	memoryReserved := reserved(func(r *job.Resources) int { return r.MemoryMB << 20 })
	maxReserved := reserved(func(r *job.Resources) int { return r.MemoryMaxMB << 20 })
	list := []column{
		{0, "cpu_total_percent", "CPU use in percent of one core.", gauge, Sum, used("percent")},
		{0, "cpu_system", "CPU use in the kernel in percent of one core.", gauge, Sum, used("system_mode")},
		{0, "cpu_user", "CPU use in user mode in percent of one core.", gauge, Sum, used("user_mode")},
		{0, "cpu_throttled_time", "Nanoseconds throttled since the start.", gauge, Sum, used("throttled_time")},
		{0, "cpu_throttled_periods", "Periods throttled since the start.", gauge, Sum, used("throttled_periods")},
		{0, "cpu_total_ticks", "CPU use in MHz.", gauge, Sum, used("total_ticks")},
		{0, "cpu_total_ticks_count", "MHz-seconds used since the start.", counter, Sum, ticksCount(coreMHz)},
		{0, "cpu_allocated", "MHz that the job file reserves.", gauge, Sum, cpuReserved},
		{0, "memory_rss", "Anonymous and shared memory in bytes.", gauge, Sum, used("rss")},
		{0, "memory_cache", "Page cache in bytes.", gauge, Sum, used("cache")},
		{0, "memory_swap", "Swapped bytes.", gauge, Sum, used("swap")},
		{0, "memory_mapped_file", "Mapped page cache in bytes.", gauge, Sum, used("mapped_file")},
		{0, "memory_usage", "Charged bytes.", gauge, Sum, used("usage")},
		{0, "memory_max_usage", "The most bytes ever charged.", gauge, Sum, used("max_usage")},
		{0, "memory_kernel_usage", "Kernel memory in bytes.", gauge, Sum, used("kernel_usage")},
		{0, "memory_kernel_max_usage", "The most kernel memory in bytes.", gauge, Sum, used("kernel_max_usage")},
		{0, "memory_allocated", "Bytes that the job file reserves.", gauge, Sum, memoryReserved},
		{0, "memory_max_allocated", "Bytes that the job file allows at most.", gauge, Sum, maxReserved},
		{0, "start", "Starts of the task.", counter, Sum, starts},
		{0, "restart", "Restarts of the task.", counter, Sum, restarts},
		{0, "oom_killed", "OOM kills of the task.", counter, Sum, oomKills},
		{0, "running", "1 for an allocation that runs.", counter, Sum, status(allocation.Running)},
		{0, "complete", "1 for an allocation that has completed.", counter, Sum, status(allocation.Complete)},
		{0, "failed", "1 for an allocation that has failed.", counter, Sum, status(allocation.Failed)},
	}
	for i := range list {
		list[i].name = "nomad_client_allocs_" + list[i].name
	}
	return list
}

// used is a number of the usage, if it was measured.
func used(name string) func(*row) float64 {
	return func(r *row) float64 {
		value, measured := r.used[name]
		return given(value, measured)
	}
}

// ticksCount is the CPU time in the unit that this counter has at an interval of one second, at any interval.
func ticksCount(coreMHz float64) func(*row) float64 {
	return func(r *row) float64 {
		seconds, ok := figures.HeadlineNumber(r.usage.Headlines, procstats.HeadlineCPU)
		return given(seconds*coreMHz, ok && r.used != nil && coreMHz > 0)
	}
}

// reserved is a number of the job file, if it is set and the task runs.
func reserved(value func(*job.Resources) int) func(*row) float64 {
	return func(r *row) float64 {
		v := value(&r.task.Resources)
		return given(float64(v), v > 0 && r.usage.Running)
	}
}

func status(s allocation.Status) func(*row) float64 {
	return func(r *row) float64 { return given(1, r.alloc.ClientStatus == s) }
}

// ofNomadNode returns the families with the labels of a node's metrics, by which dashboards filter.
func (f families) ofNomadNode(now *snapshot.Agent) families {
	return f.with("datacenter", now.Node.Datacenter, "node_class", "none", "node_id", now.Node.ID, "node_pool", "default",
		"node_scheduling_eligibility", "eligible", "node_status", "ready")
}

// addNomadAgent adds what a client, a server and their process report in Nomad: this agent is all of them.
func (f families) addNomadAgent(now *snapshot.Agent) {
	f.ofNomadNode(now).addNomadAllocated(now)
	f.addNomadJobs(now)
	f.addNomadRuntime()
}

// addNomadHost adds what only Nomad's names have of the machine.
func (f families) addNomadHost(s *node.Stats) {
	for _, c := range s.CPU {
		core := f.with("cpu", c.Name)
		core.gauge("nomad_client_host_cpu_total", "Use of a core in percent.", c.TotalPercent)
		core.gauge("nomad_client_host_cpu_total_percent", "Use of a core in percent.", c.TotalPercent)
		core.gauge("nomad_client_host_cpu_user", "Use of a core in user mode in percent.", c.User)
		core.gauge("nomad_client_host_cpu_system", "Use of a core in the kernel in percent.", c.System)
		core.gauge("nomad_client_host_cpu_idle", "Idle time of a core in percent.", c.Idle)
	}
	seen := map[string]bool{}
	for _, d := range s.Disks {
		if seen[d.Device] { // the same file system, mounted again, or another subvolume
			continue
		}
		seen[d.Device] = true
		disk := f.with("disk", d.Device)
		disk.gauge("nomad_client_host_disk_size", "Size of a file system in bytes.", float64(d.Size))
		disk.gauge("nomad_client_host_disk_used", "Used bytes of a file system.", float64(d.Used))
		disk.gauge("nomad_client_host_disk_available", "Available bytes of a file system.", float64(d.Available))
		disk.gauge("nomad_client_host_disk_used_percent", "Used share of a file system in percent.", d.UsedPercent)
		disk.gauge("nomad_client_host_disk_inodes_percent", "Used inodes of a file system in percent.", d.InodesUsedPercent)
	}
}

// addNomadAllocated adds what allocations have of the node, and what is left of it.
func (f families) addNomadAllocated(now *snapshot.Agent) {
	var mhz, memory, maxMemory, active float64
	n := countOf(now)
	for _, a := range now.Allocations {
		if a.ClientStatus.Ended() || a.JobType == allocation.Watch {
			continue
		}
		active++
		for _, t := range a.Tasks {
			mhz += float64(t.Resources.CPU) + float64(t.Resources.Cores)*now.Node.Resources.CoreMHz
			memory += float64(t.Resources.MemoryMB)
			maxMemory += float64(max(t.Resources.MemoryMB, t.Resources.MemoryMaxMB))
		}
	}
	add := func(name, help string, value float64) { f.gauge("nomad_client_"+name, help, value) }
	add("allocated_cpu", "MHz that allocations have.", mhz)
	add("allocated_memory", "MiB of memory that allocations have.", memory)
	add("allocated_max_memory", "MiB of memory that allocations may use at most.", maxMemory)
	add("allocated_disk", "MiB of disk that allocations have: none is reserved.", 0)
	add("allocations_running", "Running allocations.", n.allocations[allocation.Running])
	add("allocations_pending", "Allocations that are being started.", n.allocations[allocation.Pending])
	add("allocations_terminal", "Allocations that have ended and are stored.", float64(len(now.Allocations))-active)
	add("allocations_blocked", "Allocations that wait for another: none.", 0)
	add("allocations_migrating", "Allocations that move to another node: none.", 0)
	add("tasks_running", "Running tasks.", n.tasks[hook.PhaseRunning])
	add("tasks_pending", "Tasks that are being started.", n.tasks[hook.PhasePending]+n.tasks[""])
	add("tasks_dead", "Tasks that have ended, of stored allocations.", n.tasks[hook.PhaseDead])
	// The size of the node may not be known.
	if has := float64(now.Node.Resources.TotalMHz()); has > 0 {
		add("unallocated_cpu", "MHz that no allocation has; below 0 if they have more than there is.", has-mhz)
	}
	if has := now.Node.Resources.MemoryBytes >> 20; has > 0 {
		add("unallocated_memory", "MiB of memory that no allocation has; may be below 0, too.", float64(has)-memory)
	}
	if has := now.Node.Resources.DiskBytes >> 20; has > 0 {
		add("unallocated_disk", "MiB of disk that no allocation has.", float64(has))
	}
}

// addNomadJobs counts jobs by status, and the allocations of each of their groups.
func (f families) addNomadJobs(now *snapshot.Agent) {
	type key struct {
		job, group string
		status     allocation.Status
	}
	count := map[key]float64{}
	for _, a := range now.Allocations {
		count[key{a.JobID, a.Group, a.ClientStatus}]++
	}
	status := map[string]float64{}
	for _, j := range now.Jobs {
		status[j.Status]++
		for _, g := range j.Job.Groups {
			group := f.with("job", j.Job.ID, "namespace", j.Job.Namespace, "task_group", g.Name)
			for _, name := range []string{"running", "starting", "complete", "failed", "queued", "lost", "unknown"} {
				is := allocation.Status(name)
				if name == "starting" {
					is = allocation.Pending
				}
				group.gauge("nomad_nomad_job_summary_"+name, "Allocations of a group that are "+name+".",
					count[key{j.Job.ID, g.Name, is}])
			}
		}
	}
	for _, name := range []string{"running", "pending", "dead"} {
		f.gauge("nomad_nomad_job_status_"+name, "Jobs that are "+name+".", status[name])
	}
}
