// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestEarly holds that a stream goes on with what was counted of a task since before its start, packets and
// processes, and that what was counted is gone with the stream.
func TestEarly(t *testing.T) {
	t.Parallel()
	k := run(t, "mkfifo go; read x <go; for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; exit 3", nil)
	loop := newLoop(t)
	task := k.task()
	over := make(chan struct{})
	task.Done = over
	loop.Count(task.ID, task.Cgroup, true)
	s := testkit.Value(loop.Open(t.Context(), task, 20*time.Millisecond))(t)
	must(t, os.WriteFile(filepath.Join(k.folder, "go"), []byte("\n"), 0o600))
	<-k.done
	loop.Forget(task.ID) // a task with a stream has nothing else
	c := loop.Commands(task.ID, k.final.StartedAt)
	if c == nil || c.Reason != "" {
		t.Skipf("no exit records here: %+v", c)
	}
	k.final.SetCommands(c)
	checkCommands(t, k.final)
	if packets, source := loop.Network(task.ID); packets == nil || !source.Available {
		t.Errorf("packets: %+v of %+v", packets, source)
	}
	close(over)
	drain(s)
	loop.Close()
	if c := loop.Commands(task.ID, time.Now()); c != nil {
		t.Errorf("after the stream: %+v", c)
	}
}

// TestEarlySockets holds that no packets are said to be exactly 0 of a task that had a socket whose packets are not
// counted.
func TestEarlySockets(t *testing.T) {
	t.Parallel()
	k := run(t, "mkfifo go; read x <go; exec "+testkit.Value(os.Executable())(t)+" packet", nil)
	loop := newLoop(t)
	task := k.task()
	loop.Count(task.ID, task.Cgroup, true)
	must(t, os.WriteFile(filepath.Join(k.folder, "go"), []byte("\n"), 0o600))
	<-k.done
	packets, source := loop.Network(task.ID)
	c := loop.Commands(task.ID, k.final.StartedAt)
	loop.Forget(task.ID)
	if packets == nil || !source.Available || c == nil || c.Reason != "" || !kernel.OSRelease(kernel.HostFS()).AtLeast(6, 1) {
		t.Skipf("sockets are not looked for here: %+v, %+v", source, c)
	}
	k.final.SetNetwork(packets, source)
	for _, id := range []procstats.ID{procstats.HeadlineNetworkReceived, procstats.HeadlineNetworkSent} {
		if h := k.final.Headline[id.String()]; h.Value != nil || h.Reason == "" {
			t.Errorf("%s: %+v, want none", id, h)
		}
	}
}

// TestEarlyUnused holds that what is counted of a task whose host opens no stream ends by itself.
func TestEarlyUnused(t *testing.T) {
	t.Parallel()
	k := run(t, "exec sleep 1000", nil)
	loop := newLoop(t)
	task := k.task()
	loop.Count(task.ID, task.Cgroup, true)
	if c := loop.CommandsSoFar(task.ID, time.Now()); c == nil {
		t.Error("nothing is counted")
	}
	looks := time.NewTicker(100 * time.Millisecond)
	defer looks.Stop()
	for deadline := time.Now().Add(limit); loop.CommandsSoFar(task.ID, time.Now()) != nil; <-looks.C {
		if time.Now().After(deadline) {
			t.Fatal("still counted")
		}
	}
	if packets, _ := loop.Network(task.ID); packets != nil {
		t.Errorf("still counted: %+v", packets)
	}
}

// TestEarlyClosed holds that a task that is started while its driver closes is not counted, and that nothing stays
// loaded.
func TestEarlyClosed(t *testing.T) {
	t.Parallel()
	k := run(t, "exec sleep 1000", nil)
	loop := newLoop(t)
	task := k.task()
	loop.Count(task.ID, task.Cgroup, true)
	loop.Count(task.ID, task.Cgroup, true) // another start of the task
	loop.Close()
	if packets, _ := loop.Network(task.ID); packets != nil {
		t.Errorf("counted after the end: %+v", packets)
	}
	loop.Count(task.ID, task.Cgroup, true)
	if c := loop.CommandsSoFar(task.ID, time.Now()); c != nil {
		t.Errorf("counted after the end: %+v", c)
	}
}
