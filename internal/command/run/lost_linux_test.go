// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestMarkLost holds that a record that was written to its end stays, and that no end is made up.
func TestMarkLost(t *testing.T) {
	began := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	ended := began.Add(90 * time.Second)
	exited := record.Record{
		State: record.Exited, StartedAt: began, EndedAt: began.Add(time.Second), WallSeconds: new(1.0), ExitCode: new(3),
		Diagnosis: record.Diagnosis{Verdict: record.Failed},
	}
	lost := record.Record{State: record.Lost, StartedAt: began, Diagnosis: record.Diagnosis{Verdict: record.ExecutorLost}}
	for _, test := range []struct {
		name         string
		before, want record.Record
		ended        time.Time
	}{
		{"it was written to its end", exited, exited, ended},
		{"it is marked already", lost, lost, ended},
		{"it ran, and the end was seen", record.Record{State: record.Running, StartedAt: began}, record.Record{
			State: record.Lost, StartedAt: began, EndedAt: ended, WallSeconds: new(90.0), Diagnosis: lost.Diagnosis,
		}, ended},
		{"it ran, and nobody saw the end", record.Record{State: record.Running, StartedAt: began}, lost, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			store, err := record.Create(dir)
			if err != nil {
				t.Fatal(err)
			}
			test.before.SchemaVersion = record.SchemaVersion
			if err := store.Put(&test.before); err != nil {
				t.Fatal(err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if err := markLost(dir, test.ended); err != nil {
				t.Fatal(err)
			}
			got, err := record.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			type told struct {
				State   record.State
				Ended   time.Time
				Wall    *float64
				Code    *int
				Verdict record.Verdict
			}
			of := func(r *record.Record) told {
				return told{r.State, r.EndedAt, r.WallSeconds, r.ExitCode, r.Diagnosis.Verdict}
			}
			if diff := cmp.Diff(of(&test.want), of(got)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarkLostKeepsReports holds that what was measured until the executor died is in the record.
func TestMarkLostKeepsReports(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	store, err := record.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	reported := began.Add(3 * time.Second)
	err = errors.Join(
		store.Put(&record.Record{SchemaVersion: record.SchemaVersion, State: record.Running, StartedAt: began}),
		store.Append(&record.Usage{
			SchemaVersion: record.SchemaVersion, From: began, To: reported, ToMono: 3, Samples: 4,
			Measurements: map[string]record.Reduced{procstats.TreeCPU.String(): {Last: new(1.5), Delta: new(1.5)}},
		}, false),
		store.Close(), markLost(dir, began.Add(4*time.Second)),
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	cpu := r.Headline[procstats.HeadlineCPU.String()]
	if r.Samples != 4 || !r.AsOf.Equal(reported) || cpu.Value == nil || *cpu.Value != 1.5 {
		t.Errorf("%d samples as of %s, CPU time %+v; want 4 as of %s, 1.5 s", r.Samples, r.AsOf, cpu, reported)
	}
}

// TestKillReportedNeedsTheRecord holds that a record that cannot be read is an error, and that none at all is not.
func TestKillReportedNeedsTheRecord(t *testing.T) {
	boot, err := kernel.BootID(kernel.HostFS())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	address := wire.Address{RecordDir: dir, BootID: boot}
	if err := killReported(address); err != nil {
		t.Errorf("without a record: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, record.InfoFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := killReported(address); err == nil {
		t.Error("the record is damaged, and no error says so")
	}
}
