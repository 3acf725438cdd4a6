// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestStarting holds that a run has a record before it has an executor, which belongs to this process.
func TestStarting(t *testing.T) {
	options := &runOptions{outputDir: t.TempDir(), request: &proto.LaunchRequest{}}
	s := &session{launch: launch{options: options, id: "starting"}}
	must(t, s.createDir())
	r := testkit.Value(record.Read(s.dir))(t)
	if rundir.UpdateState(r, kernel.HostFS()); r.State != record.Running || !s.isStarting() {
		t.Errorf("%s: %+v", r.State, r.Executor)
	}
	r.Executor.StartTicks++ // as after the end of this process
	if rundir.UpdateState(r, kernel.HostFS()); r.State != record.Lost {
		t.Errorf("%s: %+v", r.State, r.Executor)
	}
}

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
			store := testkit.Value(record.Create(dir))(t)
			test.before.SchemaVersion = record.SchemaVersion
			must(t, store.Put(&test.before))
			must(t, store.Close())
			must(t, markLost(dir, test.ended))
			got := testkit.Value(record.Read(dir))(t)
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
			testkit.Diff(t, "record", of(&test.want), of(got))
		})
	}
}

// TestMarkLostKeepsReports holds that what was measured until the executor died is in the record.
func TestMarkLostKeepsReports(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	store, err := record.Create(dir)
	must(t, err)
	began := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	reported := began.Add(3 * time.Second)
	err = errors.Join(
		store.Put(&record.Record{Version: record.Version{SchemaVersion: record.SchemaVersion}, State: record.Running, StartedAt: began}),
		store.Append(&record.Usage{
			SchemaVersion: record.SchemaVersion, From: began, To: reported, ToMono: 3, Samples: 4,
			Measurements: map[string]record.Reduced{procstats.TreeCPU.String(): {Last: new(1.5), Delta: new(1.5)}},
		}, false),
		store.Close(), markLost(dir, began.Add(4*time.Second)),
	)
	must(t, err)
	r := testkit.Value(record.Read(dir))(t)
	cpu := r.Headline[procstats.HeadlineCPU.String()]
	if r.Samples != 4 || !r.AsOf.Equal(reported) || cpu.Value == nil || *cpu.Value != 1.5 {
		t.Errorf("%d samples as of %s, CPU time %+v; want 4 as of %s, 1.5 s", r.Samples, r.AsOf, cpu, reported)
	}
}

// TestKillReportedNeedsTheRecord holds that a record that cannot be read is an error, and that none at all is not.
func TestKillReportedNeedsTheRecord(t *testing.T) {
	boot := testkit.Value(kernel.BootID(kernel.HostFS()))(t)
	dir := t.TempDir()
	address := wire.Address{RecordDir: dir, Home: procstats.Home{BootID: boot}}
	if err := killReported(address); err != nil {
		t.Errorf("without a record: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, record.InfoFile), []byte("{"), 0o600))
	if err := killReported(address); err == nil {
		t.Error("the record is damaged, and no error says so")
	}
}

// TestKillOrphansUnlaunched holds that of executors that never had a task only abandoned directories are removed.
func TestKillOrphansUnlaunched(t *testing.T) {
	runtime := t.TempDir()
	mkdir := func(name string) string {
		folder := filepath.Join(runtime, name)
		must(t, os.Mkdir(folder, 0o700))
		return folder
	}
	lock := func(folder string) *os.File {
		file := testkit.Value(os.Create(filepath.Join(folder, "owner.lock")))(t)
		t.Cleanup(func() { file.Close() })
		return file
	}
	lock(mkdir("abandoned"))
	must(t, unix.Flock(int(lock(mkdir("owned")).Fd()), unix.LOCK_EX))
	launched := mkdir("launched")
	lock(launched)
	self := testkit.Value(kernel.Identify(kernel.HostFS(), os.Getpid()))(t)
	boot := testkit.Value(kernel.BootID(kernel.HostFS()))(t)
	must(t, (&wire.Address{ID: "launched", Folder: launched, Home: procstats.Home{BootID: boot}, Executor: self.ProcessID}).Write())
	mkdir("somebody else's")
	mkdir(".start-killed before it was locked")
	lock(mkdir(".start-killed"))
	must(t, unix.Flock(int(lock(mkdir(".start-now")).Fd()), unix.LOCK_EX))
	must(t, killOrphans(t.Context(), runtime))
	var got []string
	entries := testkit.Value(os.ReadDir(runtime))(t)
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	testkit.Diff(t, "left", []string{".start-now", "launched", "owned", "somebody else's"}, got)
}

// TestOrphans holds that a run that ended normally after it was listed is no orphan, but one is whose
// executor has left its folder.
func TestOrphans(t *testing.T) {
	address := &wire.Address{ID: "run", Folder: filepath.Join(t.TempDir(), "run"), Executor: procstats.ProcessID{PID: 1, Start: 1}}
	if isOrphan(t.Context(), address) {
		t.Error("a run without a folder has been lost")
	}
	must(t, os.Mkdir(address.Folder, 0o700))
	must(t, address.Write())
	if !isOrphan(t.Context(), address) {
		t.Error("a run whose executor and owner are dead has not been lost")
	}
}

// TestLook has executors in each state: this process stands for live ones, and no process for dead ones.
func TestLook(t *testing.T) {
	self := testkit.Value(kernel.Identify(kernel.HostFS(), os.Getpid()))(t)
	boot := testkit.Value(kernel.BootID(kernel.HostFS()))(t)
	alive, dead := self.ProcessID, procstats.ProcessID{PID: self.PID, Start: self.Start + 1}
	task := wire.Owner{AllocID: "0123456789", Task: "web"}
	for name, test := range map[string]struct {
		address *wire.Address // nil for none
		owned   bool
		state   executorState
		owner   string
		remedy  string
	}{
		"starting":          {&wire.Address{Executor: alive, Socket: "s"}, true, stateStarting, "tacho run", ""},
		"running":           {&wire.Address{Executor: alive, Main: alive, Socket: "s", Owner: task}, true, stateRunning, "task web of allocation 01234567", ""},
		"detached":          {&wire.Address{Executor: alive, Main: alive, Socket: "s"}, false, stateRunning, "(tacho run)", ""},
		"ended":             {&wire.Address{Executor: alive, Main: dead, Socket: "s"}, true, stateEnded, "tacho run", ""},
		"ended, no owner":   {&wire.Address{Executor: alive, Main: dead, Socket: "s"}, false, stateEnded, "(tacho run)", "start its owner, or tacho executors kill x"},
		"dead, no owner":    {&wire.Address{Executor: dead, Main: dead, Socket: "s"}, false, stateOrphan, "(tacho run)", "tacho executors kill x"},
		"cannot be reached": {&wire.Address{Executor: alive, Main: alive}, false, stateOrphan, "(tacho run)", "tacho executors kill x"},
		"no address":        {nil, false, stateOrphan, "(tacho run)", "tacho executors kill x"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "x")
			must(t, os.Mkdir(folder, 0o700))
			lock := testkit.Value(os.Create(filepath.Join(folder, client.LockFile)))(t)
			defer lock.Close()
			if test.owned {
				must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
			}
			if a := test.address; a != nil {
				a.ID, a.Folder, a.BootID = "x", folder, boot
				must(t, a.Write())
			}
			l := testkit.Value(look(folder))(t)
			if l.ID != "x" || l.State != test.state || l.OwnerText != test.owner || l.Remedy != test.remedy || l.Connected != test.owned {
				t.Errorf("got %+v, want %+v", l, test)
			}
			if test.state != stateOrphan || test.address != nil && test.address.Executor == alive {
				return
			}
			testkit.NoError(t, l.kill(t.Context()))
			if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory is left: %v", err)
			}
		})
	}
}
