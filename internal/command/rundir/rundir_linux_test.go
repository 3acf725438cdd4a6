// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

func TestCurrentState(t *testing.T) {
	host := kernel.HostFS()
	boot := testkit.Value(kernel.BootID(host))(t)
	self := testkit.Value(kernel.Identify(host, os.Getpid()))(t)
	live := record.Process{PID: self.PID, StartTicks: self.Start}
	for _, test := range []struct {
		name   string
		record record.Record
		want   record.State
	}{
		{"the executor lives", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &live}}, record.Running},
		{"the process lives and there is no executor", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, PID: live.PID, StartTicks: live.StartTicks}}, record.Running},
		{"another process has its PID", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: live.StartTicks + 1}}}, record.Lost},
		{"the machine was booted again", record.Record{State: record.Running, Origin: record.Origin{BootID: "another", Executor: &live}}, record.Lost},
		{"only the task's process is left", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: 1}, PID: live.PID, StartTicks: live.StartTicks}}, record.Lost},
		{"it is in another PID namespace", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: 1, PIDNamespace: "pid:[1]"}}}, record.Running},
		{"it was in another PID namespace", record.Record{State: record.Running, Origin: record.Origin{BootID: "another", Executor: &record.Process{PID: live.PID, StartTicks: 1, PIDNamespace: "pid:[1]"}}}, record.Lost},
		{"it was in this PID namespace", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: 1, PIDNamespace: kernel.PIDNamespace(host)}}}, record.Lost},
		{"it had no process yet", record.Record{State: record.Running, Origin: record.Origin{BootID: boot}}, record.Lost},
		{"it ended", record.Record{State: record.Exited}, record.Exited},
	} {
		if got := CurrentState(&test.record, host); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestSplitIncomplete holds that a run that is starting is not incomplete, and that a directory with other files is
// never removed.
func TestSplitIncomplete(t *testing.T) {
	root := t.TempDir()
	add := func(name string, files ...string) string {
		dir := filepath.Join(root, name)
		store := testkit.Value(record.Create(dir))(t)
		must(t, store.Close())
		for _, file := range files {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte("text"), 0o600))
		}
		return dir
	}
	incomplete, others := add("incomplete", "stdout"), add("others", "notes.txt")
	lock := testkit.Value(Lock(add("starting")))(t)
	entries := testkit.Value(record.List(root))(t)
	gotOthers, gotIncomplete := SplitIncomplete(entries)
	dirs := func(entries []record.Entry) (list []string) {
		for _, entry := range entries {
			list = append(list, entry.Dir)
		}
		return list
	}
	if diff := cmp.Diff([][]string{{others}, {incomplete}}, [][]string{dirs(gotOthers), dirs(gotIncomplete)}); diff != "" {
		t.Errorf("others and incomplete (-want +got):\n%s", diff)
	}
	if err := RemoveIncomplete(filepath.Join(root, "starting")); err == nil {
		t.Error("a run that is starting was removed")
	}
	must(t, lock.Close())
	for _, dir := range []string{incomplete, others} {
		testkit.NoError(t, RemoveIncomplete(dir))
	}
	if _, err := os.Stat(incomplete); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", incomplete, err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Error(err)
	}
}
