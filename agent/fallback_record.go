// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"os"
	"runtime"
	"strings"

	"github.com/tachograph/tacho/agent/state"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/version"
)

// fallbackRecord is the final record of a task whose driver keeps none, or whose executor was lost: what the agent itself
// knows of it.
func (t *task) fallbackRecord(exit hook.Exit, kept state.Task) *record.Record {
	t.usage.mu.Lock()
	sample, headlines := t.usage.sample, t.usage.headlines
	t.usage.mu.Unlock()
	evidence := record.Evidence{ExitCode: exit.Code, Signal: exit.Signal, EndedAt: exit.At}
	r := &record.Record{
		SchemaVersion: record.SchemaVersion, TachoVersion: version.String(), State: record.Exited, ID: t.alloc.id,
		StartedAt: kept.State.StartedAt, EndedAt: exit.At, Headline: map[string]record.HeadlineValue{},
		Measurements: map[string]any{}, Absent: map[string]string{}, Sources: []record.Source{}, Selection: []string{},
		Labels: map[string]string{
			"alloc_id": t.alloc.id, "job": t.alloc.job.Name, "task_group": t.alloc.group.Name, "task": t.spec.Name,
			"namespace": t.alloc.job.Namespace, "node": t.agent.node.Name,
		},
		Host:  record.Host{Name: t.agent.node.Name, OS: runtime.GOOS, CPUs: runtime.NumCPU()},
		Notes: []string{"the driver has no final record of this task: these are the last readings that the agent saw"},
	}
	r.ID = cmp.Or(kept.RunID, r.ID)
	if exit.Lost != "" {
		r.State, evidence.Cause = record.Lost, record.ExecutorLost
		r.Message = exit.Lost
		evidence.Reason = strings.TrimPrefix(exit.Lost, string(record.ExecutorLost)+": ")
	} else {
		r.ExitCode = &exit.Code
		if exit.Signal != 0 {
			r.Signal = &exit.Signal
		}
	}
	if exit.OOMKilled {
		evidence.Kills = []record.Kill{{At: exit.At, Kills: 1, Reason: "the driver does not say which process it was"}}
	}
	if !exit.At.IsZero() && !kept.State.StartedAt.IsZero() {
		evidence.Wall = exit.At.Sub(kept.State.StartedAt)
		seconds := evidence.Wall.Seconds()
		r.WallSeconds = &seconds
	}
	if sample != nil && !sample.Wall.Before(kept.State.StartedAt) {
		if !exit.At.IsZero() {
			evidence.Last, evidence.LastHeadlines, evidence.LastAge = sample, headlines, exit.At.Sub(sample.Wall)
		}
		r.Samples = 1
		r.Measurements, r.Absent = record.Values(sample.Task)
		r.Headline = record.Headlines(headlines)
	}
	r.Diagnosis = record.Diagnose(evidence)
	return r
}

// hostName is the machine's name; empty where it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
