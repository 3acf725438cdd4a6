// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/procstats"
)

// seen is what is known of a task in an allocation without the record of an end.
type seen struct {
	alloc string
	span  time.Duration
	// peak is in bytes, swap too; cores is 0 if it is not known.
	peak, swap, cores, throttled float64
	kills                        int64
}

// add adds what was seen: to the run of the allocation that has not ended, else as a run unless one there used as much.
func (t *Task) add(s seen) {
	var open *record.Record
	for _, r := range t.Runs {
		h := r.Headline[procstats.HeadlineMemoryPeak.String()]
		switch {
		case r.ID != s.alloc:
		case r.State == record.Running:
			open = r
		case h.Value != nil && *h.Value >= s.peak:
			return
		}
	}
	if open == nil {
		open = &record.Record{
			ID: s.alloc, State: record.Running, StartedAt: time.Now().Add(-s.span),
			Headline: map[string]record.HeadlineValue{}, Measurements: map[string]any{},
		}
		t.Runs = append(t.Runs, open)
	}
	before, _ := open.Span()
	span := max(before, s.span.Seconds())
	guarantee := procstats.Exact
	if span < record.Settled.Seconds() {
		guarantee = procstats.LowerBound
	}
	set := func(id procstats.ID, value float64, g procstats.Guarantee) {
		if known := open.Headline[id.String()].Value; known != nil {
			value = max(value, *known)
		}
		open.Headline[id.String()] = record.HeadlineValue{Value: &value, Guarantee: g}
	}
	set(procstats.HeadlineMemoryPeak, s.peak, guarantee)
	if cpu := open.Headline[procstats.HeadlineCPU.String()].Value; cpu != nil {
		*cpu *= span / before // the average of what was reported
	}
	if s.cores > 0 {
		set(procstats.HeadlineCPU, s.cores*span, procstats.Exact)
	}
	for id, value := range map[procstats.ID]float64{
		procstats.CgroupMemorySwapPeak: s.swap, procstats.CgroupCPUThrottled: s.throttled,
	} {
		if known, _ := open.Measurements[id.String()].(float64); value > known {
			open.Measurements[id.String()] = value
		}
	}
	open.SpanSeconds, open.Diagnosis.OOM.Kills = &span, &s.kills
}

// addRunning adds what the running tasks have used so far, as Nomad's clients say.
func (c *Cluster) addRunning(ctx context.Context, t *Task) error {
	for _, a := range t.allocations {
		state := a.TaskStates[t.Name]
		if !t.own || state.State != "running" || a.ClientStatus != "running" {
			continue
		}
		answer, err := client.Get[struct {
			Tasks map[string]struct {
				ResourceUsage struct {
					MemoryStats struct {
						MaxUsage, Swap float64
						Measured       []string
					}
				}
				Timestamp int64
			}
		}](ctx, c.Client, client.Path("v1", "client", "allocation", a.ID, "stats"), "namespace", a.Namespace)
		u := answer.Value.Tasks[t.Name]
		memory := u.ResourceUsage.MemoryStats
		switch {
		case client.StatusOf(err) == http.StatusForbidden:
			return err
		case err == nil && !slices.Contains(memory.Measured, "Max Usage"):
			err = errors.New("no statistics (telemetry { publish_allocation_metrics = true } of its node has them)")
		}
		if err != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("What the running allocation %.8s uses now is not known: %v.", a.ID, err))
			continue
		}
		span := time.Unix(0, u.Timestamp).Sub(state.StartedAt)
		t.add(seen{alloc: a.ID, span: span, peak: memory.MaxUsage, swap: memory.Swap, kills: killsIn(state)})
	}
	return nil
}

// killsIn counts the OOM kills of a start.
func killsIn(state *apijson.TaskState) (kills int64) {
	for _, e := range state.Events {
		if e.Details["kind"] == "oom_kill" && !time.Unix(0, e.Time).Before(state.StartedAt) {
			kills++
		}
	}
	return kills
}
