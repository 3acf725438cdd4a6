// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Size is what a task requests, what its runs have used, and what it should request.
type Size struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Group     string `json:"group"`
	Task      string `json:"task"`
	Driver    string `json:"driver"`
	// Count is how many allocations the group shall have.
	Count  int      `json:"count"`
	Memory Resource `json:"memory_mib"`
	// MemoryMax is for runs that need much more than the others; null without such runs.
	MemoryMax *int64 `json:"memory_max_mib"`
	// RequestedMax is 0 if Memory.Requested is also the limit; Cores are whole cores, 0 for CPU in MHz.
	RequestedMax int64    `json:"requested_memory_max_mib,omitempty"`
	Cores        int      `json:"requested_cores,omitempty"`
	CPU          Resource `json:"cpu_mhz"`
	CoreMHz      int      `json:"core_mhz"`
	// Runs are the number of starts that are known, with OOMKills in all.
	Runs     int   `json:"runs"`
	OOMKills int64 `json:"oom_kills"`
	// Measured sums measurements of all runs: how long they were throttled, and waited for something.
	Measured map[string]float64 `json:"measured"`
	// Why has the reasons, and what is not known.
	Why []string `json:"why"`
}

// Resource is an amount of memory or CPU of one allocation. What is not known is null.
type Resource struct {
	Requested int64  `json:"requested"`
	P50       *int64 `json:"used_p50"`
	P95       *int64 `json:"used_p95"`
	Peak      *int64 `json:"used_peak"`
	Advised   *int64 `json:"advised"`
	// Guarantee is how what was used relates to the truth; empty if nothing is known.
	Guarantee procstats.Guarantee `json:"used_guarantee,omitempty"`
}

// Saved returns what one allocation requests and does not need; negative if it needs more. Something must be advised.
func (r *Resource) Saved() int64 {
	return r.Requested - *r.Advised
}

// setUsed sets what runs have used.
func (r *Resource) setUsed(values []float64) {
	if len(values) == 0 {
		return
	}
	slices.Sort(values)
	at := func(share float64) *int64 {
		return new(int64(math.Ceil(values[int(math.Ceil(share*float64(len(values))))-1])))
	}
	r.P50, r.P95, r.Peak = at(0.5), at(0.95), at(1)
}

// include makes the guarantee that of several runs, of which one has g.
func (r *Resource) include(g procstats.Guarantee) {
	switch {
	case r.Guarantee == "" || r.Guarantee == procstats.Exact:
		r.Guarantee = g
	case g != r.Guarantee && g != procstats.Exact:
		r.Guarantee = procstats.Sampled // they can be wrong either way
	}
}

const mebibyte = 1 << 20

// NameOf names a job, and its namespace, which others with this name may be in.
func NameOf(job, namespace string) string { return strings.TrimSuffix(job+"@"+namespace, "@default") }

// Size returns the sizes of the task. A core counts for coreMHz if the cluster does not say what it counts for.
func (t *Task) Size(coreMHz int) *Size {
	for _, r := range t.Runs {
		if r.State == record.Running {
			r.State, r.Diagnosis.Verdict = record.Exited, record.Stopped
		}
	}
	advice := record.AdviseAllocations(t.Runs)
	s := &Size{
		Namespace: t.Namespace, Job: t.Job, Group: t.Group, Task: t.Name, Driver: t.Driver, Count: t.Count,
		Runs: advice.Runs, MemoryMax: advice.MemoryMaxMiB, Why: advice.Why,
		Memory: Resource{Requested: int64(t.Requested.MemoryMB), Advised: advice.MemoryMiB},
		CPU:    Resource{Requested: int64(t.Requested.CPU)}, CoreMHz: cmp.Or(int(math.Round(t.CoreMHz)), coreMHz),
		Cores: t.Requested.Cores, RequestedMax: int64(t.Requested.MemoryMaxMB), Measured: map[string]float64{},
	}
	if len(t.Notes) > 0 && len(t.Runs) == 0 {
		s.Why = nil
	}
	s.Why = append(s.Why, t.Notes...)
	if advice.Cores != nil {
		s.CPU.Advised = new(max(1, int64(math.Ceil(*advice.Cores*float64(s.CoreMHz))))) // Nomad takes no less
	}
	var memory, cpu []float64
	for _, r := range t.Runs {
		if h := r.Headline[procstats.HeadlineMemoryPeak.String()]; h.Value != nil {
			memory = append(memory, *h.Value/mebibyte)
			s.Memory.include(h.Guarantee)
		}
		span, ok := r.Span()
		if h := r.Headline[procstats.HeadlineCPU.String()]; h.Value != nil && ok {
			cpu = append(cpu, *h.Value/span*float64(s.CoreMHz))
			s.CPU.include(h.Guarantee)
		}
		if kills := r.Diagnosis.OOM.Kills; kills != nil {
			s.OOMKills += *kills
		}
		for _, id := range [...]procstats.ID{
			procstats.CgroupCPUThrottled, procstats.PSICPUSome, procstats.PSIMemorySome, procstats.PSIIOSome,
		} {
			if value, ok := r.Measurements[id.String()].(float64); ok {
				s.Measured[id.String()] += value
			}
		}
	}
	s.Memory.setUsed(memory)
	s.CPU.setUsed(cpu)
	return s
}

// Sum is the resource of all allocations of the tasks whose need is known.
type Sum struct {
	Requested int64 `json:"requested"`
	// Wasted is what tasks request and do not need, Missing what others need and do not request.
	Wasted  int64 `json:"wasted"`
	Missing int64 `json:"missing"`
	// Unknown counts the tasks whose need is not known; the others are Known.
	Known   int `json:"known_tasks"`
	Unknown int `json:"unknown_tasks"`
}

// Add adds a resource of a task with so many allocations.
func (s *Sum) Add(r *Resource, count int) {
	if r.Advised == nil {
		s.Unknown++
		return
	}
	n := int64(count)
	s.Known, s.Requested = s.Known+1, s.Requested+n*r.Requested
	s.Wasted, s.Missing = s.Wasted+n*max(0, r.Saved()), s.Missing+n*max(0, -r.Saved())
}
