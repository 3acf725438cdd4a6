// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"runtime/metrics"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
)

// nomadNodeLabels are those of a node's metrics, by which dashboards filter.
func nomadNodeLabels(now *snapshot.Agent, common *exposition.Labels) *exposition.Labels {
	return common.With(
		exposition.Label{Name: "datacenter", Value: now.Node.Datacenter}, exposition.Label{Name: "node_class", Value: "none"},
		exposition.Label{Name: "node_id", Value: now.Node.ID}, exposition.Label{Name: "node_pool", Value: "default"},
		exposition.Label{Name: "node_scheduling_eligibility", Value: "eligible"}, exposition.Label{Name: "node_status", Value: "ready"},
	)
}

// nomadAgent are what a client, a server and their process say of themselves in Nomad, all of which this agent is.
func nomadAgent(now *snapshot.Agent, common *exposition.Labels) []exposition.Family {
	var f families
	nomadAllocated(&f, now, nomadNodeLabels(now, common))
	nomadJobs(&f, now, common)
	nomadRuntime(&f, common)
	return f
}

// nomadAllocated is what allocations have of the node, and what is left of it.
func nomadAllocated(f *families, now *snapshot.Agent, labels *exposition.Labels) {
	var mhz, memory, maxMemory float64
	allocations, tasks := map[string]float64{}, map[hook.Phase]float64{}
	for _, a := range now.Allocations {
		for _, t := range a.Tasks {
			tasks[t.State.Phase]++
		}
		if a.ClientStatus.Ended() {
			allocations["terminal"]++
			continue
		}
		allocations[string(a.ClientStatus)]++
		for _, t := range a.Tasks {
			mhz += float64(t.Resources.CPU) + float64(t.Resources.Cores)*now.Node.Resources.CoreMHz
			memory += float64(t.Resources.MemoryMB)
			maxMemory += float64(max(t.Resources.MemoryMB, t.Resources.MemoryMaxMB))
		}
	}
	for _, g := range []struct {
		name, help string
		value      float64
	}{
		{"allocated_cpu", "MHz that allocations have.", mhz},
		{"allocated_memory", "MiB of memory that allocations have.", memory},
		{"allocated_max_memory", "MiB of memory that allocations may use at most.", maxMemory},
		{"allocated_disk", "MiB of disk that allocations have: none is reserved.", 0},
		{"allocations_running", "Running allocations.", allocations[string(allocation.Running)]},
		{"allocations_pending", "Allocations that are being started.", allocations[string(allocation.Pending)]},
		{"allocations_terminal", "Allocations that have ended and are stored.", allocations["terminal"]},
		{"allocations_blocked", "Allocations that wait for another: none.", 0},
		{"allocations_migrating", "Allocations that move to another node: none.", 0},
		{"tasks_running", "Running tasks.", tasks[hook.PhaseRunning]},
		{"tasks_pending", "Tasks that are being started.", tasks[hook.PhasePending] + tasks[""]},
		{"tasks_dead", "Tasks that have ended, of stored allocations.", tasks[hook.PhaseDead]},
	} {
		f.gauge("nomad_client_"+g.name, g.help, labels, g.value)
	}
	// What the node has in all may not be known.
	if has := float64(now.Node.Resources.TotalMHz()); has > 0 {
		f.gauge("nomad_client_unallocated_cpu", "MHz that no allocation has; below 0 if they have more than there is.", labels, has-mhz)
	}
	if has := now.Node.Resources.MemoryBytes >> 20; has > 0 {
		f.gauge("nomad_client_unallocated_memory", "MiB of memory that no allocation has; may be below 0, too.", labels, float64(has)-memory)
	}
	if has := now.Node.Resources.DiskBytes >> 20; has > 0 {
		f.gauge("nomad_client_unallocated_disk", "MiB of disk that no allocation has.", labels, float64(has))
	}
}

// nomadJobs counts jobs by status, and the allocations of each of their groups.
func nomadJobs(f *families, now *snapshot.Agent, common *exposition.Labels) {
	type group struct{ job, name string }
	count := map[group]map[allocation.Status]float64{}
	for _, a := range now.Allocations {
		g := group{a.JobID, a.Group}
		if count[g] == nil {
			count[g] = map[allocation.Status]float64{}
		}
		count[g][a.ClientStatus]++
	}
	status := map[string]float64{}
	for _, j := range now.Jobs {
		status[j.Status]++
		for _, g := range j.Job.Groups {
			labels := common.With(exposition.Label{Name: "job", Value: j.Job.ID}, exposition.Label{Name: "namespace", Value: j.Job.Namespace},
				exposition.Label{Name: "task_group", Value: g.Name})
			of := count[group{j.Job.ID, g.Name}]
			for _, s := range []struct {
				name  string
				value float64
			}{
				{"running", of[allocation.Running]},
				{"starting", of[allocation.Pending]},
				{"complete", of[allocation.Complete]},
				{"failed", of[allocation.Failed]},
				{"queued", 0},
				{"lost", 0},
				{"unknown", 0},
			} {
				f.gauge("nomad_nomad_job_summary_"+s.name, "Allocations of a group that are "+s.name+".", labels, s.value)
			}
		}
	}
	for _, name := range []string{"running", "pending", "dead"} {
		f.gauge("nomad_nomad_job_status_"+name, "Jobs that are "+name+".", common, status[name])
	}
}

// nomadRuntime is what the agent's process says of its runtime, without stopping it.
func nomadRuntime(f *families, common *exposition.Labels) {
	rows := []struct{ name, help, source string }{
		{"alloc_bytes", "Bytes of heap objects of the agent.", "/memory/classes/heap/objects:bytes"},
		{"sys_bytes", "Bytes that the agent's runtime has from the system.", "/memory/classes/total:bytes"},
		{"heap_objects", "Heap objects of the agent.", "/gc/heap/objects:objects"},
		{"malloc_count", "Heap objects that the agent has allocated.", "/gc/heap/allocs:objects"},
		{"free_count", "Heap objects that the agent has freed.", "/gc/heap/frees:objects"},
		{"num_goroutines", "Goroutines of the agent.", "/sched/goroutines:goroutines"},
		{"total_gc_runs", "Garbage collections of the agent.", "/gc/cycles/total:gc-cycles"},
	}
	samples := make([]metrics.Sample, len(rows))
	for i, row := range rows {
		samples[i].Name = row.source
	}
	metrics.Read(samples)
	for i, row := range rows {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			f.gauge("nomad_runtime_"+row.name, row.help, common, float64(samples[i].Value.Uint64()))
		}
	}
}
