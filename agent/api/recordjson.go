// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"github.com/tachograph/tacho/executor/record"
)

// recordWithoutSecrets returns a copy with the fields that everybody may see. New fields are left out until they
// stand here.
func recordWithoutSecrets(r *record.Record) *record.Record {
	c := &record.Record{
		SchemaVersion: r.SchemaVersion, TachoVersion: r.TachoVersion, State: r.State, ID: r.ID, PID: r.PID,
		StartTicks: r.StartTicks, BootID: r.BootID, StartedAt: r.StartedAt, EndedAt: r.EndedAt, WallSeconds: r.WallSeconds,
		ExitCode: r.ExitCode, Signal: r.Signal, Diagnosis: r.Diagnosis, Headline: r.Headline,
		Measurements: r.Measurements, Absent: r.Absent, Processes: r.Processes, Peak: r.Peak, Sources: r.Sources,
		Selection: r.Selection, Interval: r.Interval, Samples: r.Samples,
	}
	// The sentences can have the command in them, and evidence is whatever somebody found worth keeping.
	c.Diagnosis.Summary, c.Diagnosis.Operator, c.Diagnosis.Evidence = "", "", nil
	return c
}
