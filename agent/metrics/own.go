// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"maps"
	"slices"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/snapshot"
	"github.com/tachograph/tacho/exposition"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/version"
)

// own numbers the families that are neither a column nor one of Nomad's.
type own int

const (
	taskInfo own = iota
	agentBuild
	agentPublishing
	agentCPU
	agentRSS
	agentGoroutines
	agentUptime
	agentSamples
	agentLate
	agentHistoryDropped
	agentErrors
	agentAllocations
	agentTasks
	agentStreams
	agentStreamsRefused
	agentSeries
	agentScrape
	nodeUptime
	nodeMemoryTotal
	nodeMemoryAvailable
	nodeMemoryUsed
	nodeMemoryFree
	nodeCPU
	nodeDiskSize
	nodeDiskUsed
	nodeDiskAvailable
	ownCount
)

// family returns the empty family of a number.
func family(n own) exposition.Family { return ownFamilies()[n] }

// ownFamilies are the empty families, by number.
func ownFamilies() [ownCount]exposition.Family {
	return [...]exposition.Family{
		taskInfo:   {Name: "tacho_task_info", Help: "Properties of a task as labels, always 1. Only with allocation_detail alloc."},
		agentBuild: {Name: "tacho_build_info", Help: "The version of the agent, always 1."},
		agentPublishing: {
			Name: "tacho_agent_publishing", Help: "1 while tasks are read, 0 while publish_allocation_metrics is off.",
		},
		agentCPU:        {Name: "tacho_agent_cpu_seconds_total", Type: exposition.Counter, Help: "CPU time of the agent's own process, without the executors."},
		agentRSS:        {Name: "tacho_agent_resident_memory_bytes", Help: "Resident memory of the agent's own process."},
		agentGoroutines: {Name: "tacho_agent_goroutines", Help: "Goroutines of the agent's own process."},
		agentUptime:     {Name: "tacho_agent_uptime_seconds", Help: "How long the agent has run."},
		agentSamples:    {Name: "tacho_agent_samples_total", Type: exposition.Counter, Help: "Samples taken of all tasks."},
		agentLate:       {Name: "tacho_agent_samples_late_total", Type: exposition.Counter, Help: "Samples of all tasks that were more than an interval late."},
		agentHistoryDropped: {
			Name: "tacho_agent_history_dropped_total", Type: exposition.Counter,
			Help: "Readings of all tasks that are missing in the history because the disk was too slow.",
		},
		agentErrors: {Name: "tacho_agent_errors_total", Type: exposition.Counter, Help: "Errors, by what failed."},
		agentAllocations: {
			Name: "tacho_agent_allocations", Help: "Allocations known to the agent, by status.",
		},
		agentTasks:   {Name: "tacho_agent_tasks", Help: "Tasks known to the agent, by state."},
		agentStreams: {Name: "tacho_agent_streams", Help: "Open requests that last (logs, events, commands in tasks, live pages), by kind."},
		agentStreamsRefused: {
			Name: "tacho_agent_streams_refused_total", Type: exposition.Counter,
			Help: "Requests of that kind that were refused because too many were open.",
		},
		agentSeries:         {Name: "tacho_agent_series", Help: "Samples in this response, without those of tacho_agent_series and tacho_agent_scrape_seconds, and before prefix_filter."},
		agentScrape:         {Name: "tacho_agent_scrape_seconds", Help: "How long it took to gather the previous response."},
		nodeUptime:          {Name: "tacho_node_uptime_seconds", Help: "How long the machine has been up."},
		nodeMemoryTotal:     {Name: "tacho_node_memory_total_bytes", Help: "Memory of the machine."},
		nodeMemoryAvailable: {Name: "tacho_node_memory_available_bytes", Help: "Memory that is available without swapping."},
		nodeMemoryUsed:      {Name: "tacho_node_memory_used_bytes", Help: "Memory in use."},
		nodeMemoryFree:      {Name: "tacho_node_memory_free_bytes", Help: "Memory that is not used at all."},
		nodeCPU:             {Name: "tacho_node_cpu_ratio", Help: "The share of each core's time since the previous reading, 0 to 1, by mode."},
		nodeDiskSize:        {Name: "tacho_node_disk_size_bytes", Help: "Size of a file system."},
		nodeDiskUsed:        {Name: "tacho_node_disk_used_bytes", Help: "Used space of a file system."},
		nodeDiskAvailable:   {Name: "tacho_node_disk_available_bytes", Help: "Space of a file system that is available to unprivileged users."},
	}
}

// agentFamilies are the agent's own cost and what it keeps.
func (c *Collector) agentFamilies(now *snapshot.Agent, common *exposition.Labels) []exposition.Family {
	all := ownFamilies()
	list := all[agentBuild:agentSeries]
	at := func(n own) *exposition.Family { return &list[n-agentBuild] }
	at(agentBuild).Add(common.With(exposition.Label{Name: "version", Value: version.String()}), 1)
	publishing := 0.0
	if now.NotPublishing == "" {
		publishing = 1
	}
	at(agentPublishing).Add(common, publishing)
	cost := c.agent.Cost()
	at(agentCPU).Add(common, cost.CPUSeconds)
	if cost.RSSBytes > 0 {
		at(agentRSS).Add(common, float64(cost.RSSBytes))
	}
	at(agentGoroutines).Add(common, float64(cost.Goroutines))
	at(agentUptime).Add(common, cost.Uptime.Seconds())
	at(agentSamples).Add(common, float64(cost.Samples))
	at(agentLate).Add(common, float64(cost.Backlogged))
	at(agentHistoryDropped).Add(common, float64(cost.HistoryDropped))
	for _, source := range slices.Sorted(maps.Keys(cost.Errors)) {
		at(agentErrors).Add(common.With(exposition.Label{Name: "source", Value: source}), float64(cost.Errors[source]))
	}
	statuses, states := map[allocation.Status]int{}, map[hook.Phase]int{}
	for _, a := range now.Allocations {
		statuses[a.ClientStatus]++
		for _, t := range a.Tasks {
			states[t.State.Phase]++
		}
	}
	for _, s := range []allocation.Status{allocation.Pending, allocation.Running, allocation.Complete, allocation.Failed} {
		at(agentAllocations).Add(common.With(exposition.Label{Name: "status", Value: string(s)}), float64(statuses[s]))
	}
	for _, s := range []hook.Phase{hook.PhasePending, hook.PhaseRunning, hook.PhaseDead} {
		at(agentTasks).Add(common.With(exposition.Label{Name: "state", Value: string(s)}), float64(states[s]))
	}
	for _, u := range c.streams.Usage() {
		labels := common.With(exposition.Label{Name: "kind", Value: string(u.Kind)})
		at(agentStreams).Add(labels, float64(u.Open))
		at(agentStreamsRefused).Add(labels, float64(u.Refused))
	}
	return list
}
