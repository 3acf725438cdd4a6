// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/executor/client"
)

// TestNoSecondTaskBesideALiveOne is about executors that are alive and that an agent cannot take up when it begins.
func TestNoSecondTaskBesideALiveOne(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	l := r.submit(oneTask("service", "", "exec sleep 1000"))[0]
	l = r.await(l.ID, "running", isRunning)
	pid := l.Tasks["t"].Attributes["pid"]
	all, err := client.List(filepath.Join(c.DataDir, "run"))
	if err != nil || len(all) != 1 {
		t.Fatalf("executors %v, %v; want one", all, err)
	}
	executor := all[0]
	goesOn := func() {
		t.Helper()
		samples := r.Cost().Samples
		r.eventually("fresh reading", func() bool { return r.Cost().Samples > samples })
		l = r.await(l.ID, "running", isRunning)
		if got := l.Tasks["t"].Attributes["pid"]; got != pid || l.Tasks["t"].State.Restarts != 0 {
			t.Errorf("process %s, was %s; %d restarts; events %+v", got, pid, l.Tasks["t"].State.Restarts, l.Tasks["t"].Events)
		}
	}
	r.end(false)

	if err := syscall.Kill(executor.Executor.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r = begin(t, c)
	if err := syscall.Kill(executor.Executor.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	goesOn()
	r.end(false)

	lock, err := os.Open(filepath.Join(executor.Folder, "owner.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	r = begin(t, c)
	defer r.end(true)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	goesOn()
}
