// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// short is a task of 11 processes that is over before a host can open a stream of it.
const short = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; exit 3"

// runCounted runs a task to its end and returns its record.
func (f *fixture) runCounted(config *driver.TaskConfig, started func()) *record.Record {
	f.t.Helper()
	handle := f.start(config)
	started()
	if err := f.RecoverTask(f.t.Context(), handle); err != nil { // it has come to the host, should it be behind a wire
		f.t.Fatal(err)
	}
	if exit := f.wait(config.ID); exit.Code != 3 {
		f.t.Fatalf("exit code %d", exit.Code)
	}
	r := testkit.Value(f.FinalRecord(config.ID))(f.t)
	return r
}

// processes is how many of each name have ended, and whether all the CPU time is theirs.
func processes(r *record.Record) map[string]int64 {
	n := make(map[string]int64)
	for _, row := range r.Commands.Rows {
		n[row.Name] = row.Processes
	}
	return n
}

// checkCounted holds that all of a short task was counted from its first process on.
func checkCounted(t *testing.T, r *record.Record) {
	t.Helper()
	if c := r.Commands; c.Reason != "" {
		t.Skipf("no exit records here: %s", c.Reason)
	}
	if n := processes(r); n["true"] != 10 || n["sh"] != 1 {
		t.Errorf("ended: %v; want 10 of true, 1 of sh", n)
	}
	if c := r.Commands; !c.Since.IsZero() || c.LostRecords != 0 || c.LeftProcesses != 0 {
		t.Errorf("since %v, %d lost, %d left", c.Since, c.LostRecords, c.LeftProcesses)
	}
	sent := procstats.SkbSent.String()
	if total, ok := r.Measurements[sent]; !ok || total != 0.0 {
		t.Errorf("sent bytes %v, %v (%s); want 0", total, ok, r.Absent[sent])
	}
}

// TestCountedFromTheStart holds that the processes of a task are counted from the first one on if its host says that
// it samples, be the task over before the stream is opened.
func TestCountedFromTheStart(t *testing.T) {
	for name, open := range map[string]bool{"no stream": false, "a stream at once": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			config := f.shell(short)
			config.Sampled = true
			checkCounted(t, f.runCounted(config, func() {
				if !open {
					return
				}
				if _, err := f.TaskStats(t.Context(), config.ID, time.Second); err != nil {
					t.Fatal(err)
				}
			}))
		})
	}
}

// TestNotCounted holds that nothing is counted of a task whose host does not sample.
func TestNotCounted(t *testing.T) {
	f := newFixture(t, nil)
	r := f.runCounted(f.shell(short), func() {})
	if !strings.Contains(r.Commands.Reason, "publishing off") {
		t.Errorf("commands: %+v", r.Commands)
	}
}

// TestCountedBehindWire holds that a plugin expects of its host that it samples.
func TestCountedBehindWire(t *testing.T) {
	f := newFixture(t, nil)
	f.options.Remote = true
	f.restart()
	checkCounted(t, f.runCounted(f.shell(short), func() {}))
}

// TestCountedStartFails holds that a start that fails leaves nothing to be counted: the programs are unloaded with
// the driver, or the test of leaks fails.
func TestCountedStartFails(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("")
	config.Sampled = true
	config.DriverConfig = msgpack(t, map[string]any{"command": "/etc/hostname"})
	if _, err := f.StartTask(t.Context(), config); err == nil {
		t.Error("a text file was started")
	}
}
