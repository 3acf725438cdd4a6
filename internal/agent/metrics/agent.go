// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"maps"
	"runtime"
	"slices"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/version"
)

// families collects families that are not of tasks, in the order of their first samples.
type families struct {
	list *[]exposition.Family
	// labels are those of the next samples.
	labels *exposition.Labels
}

// with returns the same families for samples with more labels.
func (f families) with(pairs ...string) families { return families{f.list, f.labels.With(pairs...)} }

// gauge adds a sample to the family of a name.
func (f families) gauge(name, help string, value float64) { f.add(exposition.Gauge, name, help, value) }

// counter does so for what only grows.
func (f families) counter(name, help string, value float64) {
	f.add(exposition.Counter, name, help, value)
}

func (f families) add(kind exposition.Type, name, help string, value float64) {
	i := slices.IndexFunc(*f.list, func(known exposition.Family) bool { return known.Name == name })
	if i < 0 {
		i = len(*f.list)
		*f.list = append(*f.list, exposition.Family{Name: name, Help: help, Type: kind})
	}
	(*f.list)[i].Add(f.labels, value)
}

// addAgent adds the agent's own cost and what it stores.
func (c *Collector) addAgent(f families, now *snapshot.Agent) {
	f.with("version", version.String()).gauge("tacho_build_info", "The version of the agent, always 1.", 1)
	publishing := 0.0
	if now.NotPublishing == "" {
		publishing = 1
	}
	f.gauge("tacho_agent_publishing", "1 while tasks are read, 0 while publish_allocation_metrics is off.", publishing)
	c.addCost(f)
	n := countOf(now)
	for _, s := range []allocation.Status{allocation.Pending, allocation.Running, allocation.Complete, allocation.Failed} {
		f.with("status", string(s)).gauge("tacho_agent_allocations", "Allocations known to the agent, by status.",
			n.allocations[s])
	}
	for _, s := range []hook.Phase{hook.PhasePending, hook.PhaseRunning, hook.PhaseDead} {
		f.with("state", string(s)).gauge("tacho_agent_tasks", "Tasks known to the agent, by state.", n.tasks[s])
	}
	f.gauge("tacho_agent_allocations_not_removed", "Directories of ended allocations that cannot be removed.",
		float64(now.NotRemoved))
	if c.streams.Connections != nil {
		open, refused := c.streams.Connections.Count()
		f.gauge("tacho_agent_connections", "Open connections over TCP.", float64(open))
		f.counter("tacho_agent_connections_refused_total",
			"Connections over TCP that were refused, or closed for others, because too many were open.", float64(refused))
	}
	f.counter("tacho_agent_wrong_tokens_total", "Requests over TCP with a wrong token.", float64(c.streams.Denied.Load()))
	for _, u := range c.streams.Usage() {
		kind := f.with("kind", string(u.Kind))
		kind.gauge("tacho_agent_streams",
			"Open requests that last (logs, events, commands in tasks, live pages), by kind.", float64(u.Open))
		kind.counter("tacho_agent_streams_refused_total",
			"Requests of that kind that were refused because too many were open.", float64(u.Refused))
	}
}

// addCost adds what the agent itself uses, and how well it keeps up.
func (c *Collector) addCost(f families) {
	cost := c.agent.Cost()
	f.counter("tacho_agent_cpu_seconds_total", "CPU time of the agent's own process, without the executors.",
		cost.CPUSeconds)
	if cost.RSSBytes > 0 {
		f.gauge("tacho_agent_resident_memory_bytes", "Resident memory of the agent's own process.", float64(cost.RSSBytes))
	}
	f.gauge("tacho_agent_goroutines", "Goroutines of the agent's own process.", float64(cost.Goroutines))
	f.gauge("tacho_agent_uptime_seconds", "How long the agent has run.", cost.Uptime.Seconds())
	f.counter("tacho_agent_samples_total", "Samples taken of all tasks.", float64(cost.Samples))
	f.counter("tacho_agent_samples_late_total", "Samples of all tasks that were more than an interval late.",
		float64(cost.Backlogged))
	f.counter("tacho_agent_history_dropped_total",
		"Readings of all tasks that are missing in the history because the disk was too slow.", float64(cost.HistoryDropped))
	for _, source := range slices.Sorted(maps.Keys(cost.Errors)) {
		f.with("source", source).counter("tacho_agent_errors_total", "Errors, by what failed.", float64(cost.Errors[source]))
	}
}

// counts are allocations by status and tasks by state.
type counts struct {
	allocations map[allocation.Status]float64
	tasks       map[hook.Phase]float64
}

func countOf(now *snapshot.Agent) counts {
	n := counts{map[allocation.Status]float64{}, map[hook.Phase]float64{}}
	for _, a := range now.Allocations {
		if a.JobType == allocation.Watch { // they are no allocations of this agent
			continue
		}
		n.allocations[a.ClientStatus]++
		for _, t := range a.Tasks {
			n.tasks[t.State.Phase]++
		}
	}
	return n
}

// addNode adds the machine's numbers, as far as they were read.
func (c *Collector) addNode(ctx context.Context, f families, now *snapshot.Agent) {
	s, err := c.agent.NodeStats(ctx)
	if err != nil || s == nil {
		return
	}
	nomad, named := f.ofNomadNode(now), now.Config.Telemetry.NomadNames
	// both adds a sample under our name and under Nomad's.
	both := func(ours, theirs, help string, value float64) {
		f.gauge("tacho_node_"+ours, help, value)
		if named {
			nomad.gauge("nomad_client_"+theirs, help, value)
		}
	}
	if _, missing := s.Reasons["uptime"]; !missing {
		both("uptime_seconds", "uptime", "How long the machine has been up.", s.Uptime.Seconds())
	}
	if _, missing := s.Reasons["memory"]; !missing {
		m := &s.Memory
		both("memory_total_bytes", "host_memory_total", "Memory of the machine.", float64(m.Total))
		both("memory_available_bytes", "host_memory_available", "Memory that is available without swapping.",
			float64(m.Available))
		both("memory_used_bytes", "host_memory_used", "Memory in use.", float64(m.Used))
		both("memory_free_bytes", "host_memory_free", "Memory that is not used at all.", float64(m.Free))
	}
	const ratio = "The share of each core's time since the previous reading, 0 to 1, by mode."
	for _, core := range s.CPU {
		for _, mode := range []string{"idle", "system", "user"} {
			percent := map[string]float64{"idle": core.Idle, "system": core.System, "user": core.User}[mode]
			f.with("cpu", core.Name, "mode", mode).gauge("tacho_node_cpu_ratio", ratio, percent/100)
		}
	}
	for _, d := range s.Disks {
		disk := f.with("device", d.Device, "mountpoint", d.Mountpoint)
		disk.gauge("tacho_node_disk_size_bytes", "Size of a file system.", float64(d.Size))
		disk.gauge("tacho_node_disk_used_bytes", "Used space of a file system.", float64(d.Used))
		disk.gauge("tacho_node_disk_available_bytes",
			"Space of a file system that is available to unprivileged users.", float64(d.Available))
	}
	if named {
		nomad.addNomadHost(s)
	}
}

// addNomadRuntime adds what the agent's process reports of its runtime.
func (f families) addNomadRuntime() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m) // not runtime/metrics, whose initialization is 0.1 ms of the start of every process
	add := func(name, help string, value uint64) { f.gauge("nomad_runtime_"+name, help, float64(value)) }
	add("alloc_bytes", "Bytes of heap objects of the agent.", m.HeapAlloc)
	add("sys_bytes", "Bytes that the agent's runtime has from the system.", m.Sys)
	add("heap_objects", "Heap objects of the agent.", m.HeapObjects)
	add("malloc_count", "Heap objects that the agent has allocated.", m.Mallocs)
	add("free_count", "Heap objects that the agent has freed.", m.Frees)
	add("num_goroutines", "Goroutines of the agent.", uint64(runtime.NumGoroutine()))
	add("total_gc_runs", "Garbage collections of the agent.", uint64(m.NumGC))
}
