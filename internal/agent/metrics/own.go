// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"maps"
	"slices"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/version"
)

// families are in the order of their first samples.
type families []exposition.Family

// gauge adds a sample to the family of a name.
func (f *families) gauge(name, help string, labels *exposition.Labels, value float64) {
	f.add(exposition.Family{Name: name, Help: help}, labels, value)
}

// counter does so for what only grows.
func (f *families) counter(name, help string, labels *exposition.Labels, value float64) {
	f.add(exposition.Family{Name: name, Help: help, Type: exposition.Counter}, labels, value)
}

func (f *families) add(of exposition.Family, labels *exposition.Labels, value float64) {
	i := slices.IndexFunc(*f, func(known exposition.Family) bool { return known.Name == of.Name })
	if i < 0 {
		i = len(*f)
		*f = append(*f, of)
	}
	(*f)[i].Add(labels, value)
}

// agentFamilies are the agent's own cost and what it keeps.
func (c *Collector) agentFamilies(now *snapshot.Agent, common *exposition.Labels) []exposition.Family {
	var f families
	f.gauge("tacho_build_info", "The version of the agent, always 1.",
		common.With(exposition.Label{Name: "version", Value: version.String()}), 1)
	publishing := 0.0
	if now.NotPublishing == "" {
		publishing = 1
	}
	f.gauge("tacho_agent_publishing", "1 while tasks are read, 0 while publish_allocation_metrics is off.", common, publishing)
	c.addCost(&f, common)
	addCounts(&f, now, common)
	for _, u := range c.streams.Usage() {
		labels := common.With(exposition.Label{Name: "kind", Value: string(u.Kind)})
		f.gauge("tacho_agent_streams", "Open requests that last (logs, events, commands in tasks, live pages), by kind.", labels, float64(u.Open))
		f.counter("tacho_agent_streams_refused_total", "Requests of that kind that were refused because too many were open.", labels, float64(u.Refused))
	}
	return f
}

// addCost adds what the agent itself uses, and how well it keeps up.
func (c *Collector) addCost(f *families, common *exposition.Labels) {
	cost := c.agent.Cost()
	f.counter("tacho_agent_cpu_seconds_total", "CPU time of the agent's own process, without the executors.", common, cost.CPUSeconds)
	if cost.RSSBytes > 0 {
		f.gauge("tacho_agent_resident_memory_bytes", "Resident memory of the agent's own process.", common, float64(cost.RSSBytes))
	}
	f.gauge("tacho_agent_goroutines", "Goroutines of the agent's own process.", common, float64(cost.Goroutines))
	f.gauge("tacho_agent_uptime_seconds", "How long the agent has run.", common, cost.Uptime.Seconds())
	f.counter("tacho_agent_samples_total", "Samples taken of all tasks.", common, float64(cost.Samples))
	f.counter("tacho_agent_samples_late_total", "Samples of all tasks that were more than an interval late.", common, float64(cost.Backlogged))
	f.counter("tacho_agent_history_dropped_total",
		"Readings of all tasks that are missing in the history because the disk was too slow.", common, float64(cost.HistoryDropped))
	for _, source := range slices.Sorted(maps.Keys(cost.Errors)) {
		f.counter("tacho_agent_errors_total", "Errors, by what failed.",
			common.With(exposition.Label{Name: "source", Value: source}), float64(cost.Errors[source]))
	}
}

// addCounts adds how many allocations and tasks there are.
func addCounts(f *families, now *snapshot.Agent, common *exposition.Labels) {
	statuses, states := map[allocation.Status]int{}, map[hook.Phase]int{}
	for _, a := range now.Allocations {
		statuses[a.ClientStatus]++
		for _, t := range a.Tasks {
			states[t.State.Phase]++
		}
	}
	for _, s := range []allocation.Status{allocation.Pending, allocation.Running, allocation.Complete, allocation.Failed} {
		f.gauge("tacho_agent_allocations", "Allocations known to the agent, by status.",
			common.With(exposition.Label{Name: "status", Value: string(s)}), float64(statuses[s]))
	}
	for _, s := range []hook.Phase{hook.PhasePending, hook.PhaseRunning, hook.PhaseDead} {
		f.gauge("tacho_agent_tasks", "Tasks known to the agent, by state.",
			common.With(exposition.Label{Name: "state", Value: string(s)}), float64(states[s]))
	}
}
