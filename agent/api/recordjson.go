// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"slices"

	"github.com/tachograph/tacho/executor/record"
)

// recordWithoutSecrets returns a copy with the fields that everybody may see. New fields are left out until they
// stand here.
func recordWithoutSecrets(r *record.Record) *record.Record {
	c := &record.Record{
		SchemaVersion: r.SchemaVersion, TachoVersion: r.TachoVersion, State: r.State, ID: r.ID, PID: r.PID,
		StartTicks: r.StartTicks, BootID: r.BootID, StartedAt: r.StartedAt, EndedAt: r.EndedAt, WallSeconds: r.WallSeconds,
		SpanSeconds: r.SpanSeconds, ExitCode: r.ExitCode, Signal: r.Signal, Diagnosis: r.Diagnosis, Headline: r.Headline,
		Measurements: r.Measurements, Absent: r.Absent, Processes: r.Processes, Peak: r.Peak, Sources: r.Sources,
		Selection: r.Selection, Interval: r.Interval, Samples: r.Samples,
	}
	// The sentences can have the command in them, and evidence is whatever somebody found worth keeping.
	c.Diagnosis.Summary, c.Diagnosis.Operator, c.Diagnosis.Evidence = "", "", nil
	// Of a kill everybody hears the limit, and only who is trusted the folder that has it.
	c.Diagnosis.OOM.Notices = slices.Clone(r.Diagnosis.OOM.Notices)
	if c.Diagnosis.OOM.Reason != "" {
		c.Diagnosis.OOM.Reason = "it could not be read" // an error has its file in it
	}
	for i := range c.Diagnosis.OOM.Notices {
		c.Diagnosis.OOM.Notices[i].Where = ""
	}
	return c
}
