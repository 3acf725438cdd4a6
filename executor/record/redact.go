// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"maps"
	"slices"
)

// redacted stands for an error, which names files.
const redacted = "it could not be read"

// Redacted returns a copy with the fields that untrusted callers may see: no command line, no path, no label. New
// fields are left out until they stand here. Its sentences are made from what is left.
func (r *Record) Redacted() *Record {
	c := &Record{
		Version: r.Version, State: r.State, ID: r.ID,
		Origin:    Origin{PID: r.PID, StartTicks: r.StartTicks, BootID: r.BootID},
		StartedAt: r.StartedAt, EndedAt: r.EndedAt, WallSeconds: r.WallSeconds, SpanSeconds: r.SpanSeconds,
		ExitCode: r.ExitCode, Signal: r.Signal, Diagnosis: r.Diagnosis.redacted(),
		Headline: r.Headline, Measurements: r.Measurements, Absent: r.Absent, Processes: r.Processes.redacted(),
		Commands: r.Commands,
		Surroundings: Surroundings{
			Peak: r.Peak.redacted(), Limits: redactedLimits(r.Limits), Sources: r.Sources, Selection: r.Selection,
		},
		Sampling: Sampling{Interval: r.Interval, FirstInterval: r.FirstInterval, Samples: r.Samples},
	}
	end := c.End()
	c.Diagnosis.Outcome, c.Diagnosis.Summary, c.Diagnosis.Operator = end.Outcome, end.Summary, end.Operator()
	return c
}

// redacted returns processes without command lines.
func (p *Processes) redacted() *Processes {
	if p == nil {
		return nil
	}
	c := *p
	c.Rows = redactedRows(p.Rows)
	return &c
}

func (p *Peak) redacted() *Peak {
	if p == nil {
		return nil
	}
	c := *p
	c.Largest = redactedRows(p.Largest)
	return &c
}

// redactedRows leaves out the texts of rows: of measurements that are not numbers only command lines are known.
func redactedRows(rows []ProcessRow) []ProcessRow {
	some := slices.Clone(rows)
	for i := range some {
		some[i].Measurements = maps.Clone(some[i].Measurements)
		maps.DeleteFunc(some[i].Measurements, func(_ string, value any) bool {
			_, number := value.(float64)
			return !number
		})
	}
	return some
}

// redactedLimits leaves out the directories of the limits.
func redactedLimits(limits []Limit) []Limit {
	some := slices.Clone(limits)
	for i := range some {
		some[i].Where = ""
	}
	return some
}

// redacted returns a diagnosis without sentences.
func (d Diagnosis) redacted() Diagnosis {
	c := Diagnosis{
		Verdict: d.Verdict, AfterMain: d.AfterMain, ForwardedSignal: d.ForwardedSignal, OOM: d.OOM, OOMKilled: d.OOMKilled,
		LastReading: d.LastReading, Forks: d.Forks, Stall: d.Stall, Retryable: d.Retryable,
	}
	if d.Verdict == Stopped {
		c.Reason = d.Reason // in words of our own; those of others name files
	}
	if c.OOM.Reason != "" {
		c.OOM.Reason = redacted
	}
	c.OOM.Notices = slices.Clone(d.OOM.Notices)
	for i := range c.OOM.Notices {
		n := &c.OOM.Notices[i]
		n.Where = ""
		if n.Reason != "" {
			n.Reason = redacted
		}
	}
	return c
}
