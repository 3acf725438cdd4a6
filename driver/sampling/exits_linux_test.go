// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestCommands holds that a task that is read here has the commands of all processes that ended since, and that one
// whose stream has ended has none.
func TestCommands(t *testing.T) {
	t.Parallel()
	k := run(t, "mkfifo go; read x <go; for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; exit 3", nil)
	loop := newLoop(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	task := k.task()
	over := make(chan struct{})
	task.Done = over // the driver asks before it closes its own
	s := testkit.Value(loop.Open(ctx, task, 20*time.Millisecond))(t)
	must(t, os.WriteFile(filepath.Join(k.folder, "go"), []byte("\n"), 0o600))
	<-k.done
	c := loop.Commands(task.ID, k.final.StartedAt)
	if c == nil {
		t.Fatal("no commands")
	}
	if c.Reason != "" {
		t.Skipf("no exit records here: %s", c.Reason)
	}
	k.final.SetCommands(c)
	checkCommands(t, k.final)
	close(over)
	drain(s)
	loop.Close() // waits for what closes the task's files
	if c := loop.Commands(task.ID, k.final.StartedAt); c != nil {
		t.Errorf("a task without a stream has commands: %+v", c)
	}
}

// TestCommandsSoFar asks again and again what the ended processes of a task that starts many have used: never more
// than the task.
func TestCommandsSoFar(t *testing.T) {
	t.Parallel()
	k := run(t, "while :; do /bin/true; done", nil)
	loop := newLoop(t)
	task := k.task()
	if _, err := loop.Open(t.Context(), task, time.Hour); err != nil { // the only sample of its own is the first
		t.Fatal(err)
	}
	processes := int64(0)
	for deadline := time.Now().Add(limit); processes < 300 && time.Now().Before(deadline); {
		c := loop.CommandsSoFar(task.ID, time.Now())
		if c == nil || c.Reason != "" {
			t.Skipf("no exit records here: %+v", c)
		}
		processes = c.Processes()
		if c.UnattributedCPUSeconds == nil {
			t.Fatalf("no total: %+v", c)
		}
		if *c.UnattributedCPUSeconds < -0.001 {
			t.Fatalf("%d processes used %v s more than their task", processes, -*c.UnattributedCPUSeconds)
		}
	}
	if processes < 300 {
		t.Errorf("%d processes were recorded", processes)
	}
}

// countTrue counts the ended processes of /bin/true.
func countTrue(c *record.Commands) (n int64) {
	for _, row := range c.Rows {
		if row.Name == "true" {
			n += row.Processes
		}
	}
	return n
}

func checkCommands(t *testing.T, r *record.Record) {
	t.Helper()
	failed := make(map[string][2]int64)
	for _, row := range r.Commands.Rows {
		failed[row.Name] = [2]int64{row.Processes, row.Failed}
	}
	if failed["true"] != [2]int64{9, 0} || failed["sh"] != [2]int64{1, 1} {
		t.Errorf("processes and failures: %v", failed)
	}
	if r.Commands.Since.Before(r.StartedAt) || r.Commands.UnattributedCPUSeconds == nil {
		t.Fatalf("since %v, unattributed %v", r.Commands.Since, r.Commands.UnattributedCPUSeconds)
	}
	// mkfifo has ended before anybody counted.
	if unattributed := *r.Commands.UnattributedCPUSeconds; math.Abs(unattributed) > 0.03 {
		t.Errorf("%v s are unattributed", unattributed)
	}
}

// TestCommandsGoOn holds that a reader goes on with what an earlier one has counted and states the time between them,
// and that the executor's record has it all if nobody reads at the end.
func TestCommandsGoOn(t *testing.T) {
	t.Parallel()
	k := run(t, "while ! [ -p over ]; do sleep 0.01; done; for n in 1 2 3; do read x <go; for i in 1 2 3 4 5; do /bin/true; done; echo $n >over; done; exit 3", nil)
	task := k.task()
	for _, fifo := range []string{"go", "over"} {
		must(t, unix.Mkfifo(filepath.Join(k.folder, fifo), 0o600))
	}
	turn := func() {
		t.Helper()
		err := os.WriteFile(filepath.Join(k.folder, "go"), []byte("\n"), 0o600)
		if err == nil {
			_, err = os.ReadFile(filepath.Join(k.folder, "over"))
		}
		must(t, err)
	}
	for reader := range 2 {
		loop := newLoop(t)
		if _, err := loop.Open(t.Context(), task, time.Hour); err != nil {
			t.Fatal(err)
		}
		c := loop.CommandsSoFar(task.ID, task.Started)
		if c.Reason != "" {
			t.Skipf("no exit records here: %s", c.Reason)
		}
		turn()
		if c = loop.CommandsSoFar(task.ID, task.Started); countTrue(c) != int64(5*(reader+1)) || len(c.Gaps) != reader {
			t.Errorf("reader %d: %d processes, gaps %v", reader+1, countTrue(c), c.Gaps)
		}
		loop.Close()
	}
	turn()
	<-k.done
	c := k.final.Commands
	if c == nil || countTrue(c) != 10 || len(c.Gaps) != 2 || c.Gaps[1].To.Before(c.Gaps[1].From) || k.final.EndedAt.Before(c.Gaps[1].To) {
		t.Fatalf("the record has %+v", c)
	}
	if c.UnattributedCPUSeconds == nil || *c.UnattributedCPUSeconds <= 0 {
		t.Errorf("unattributed is %v, and five processes ended while nobody counted", c.UnattributedCPUSeconds)
	}
}
