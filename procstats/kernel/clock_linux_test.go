// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestNow: other processes, and the kernel, read the same clock.
func TestNow(t *testing.T) {
	monotonic := func() time.Duration {
		var ts unix.Timespec
		must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
		return time.Duration(ts.Nano())
	}
	const slack = time.Millisecond // half of what passes between two readings at start
	for range 1000 {
		before, now, after := monotonic(), Now(), monotonic()
		if now.Mono < before-slack || now.Mono > after+slack {
			t.Fatalf("stamped %s, want from %s to %s", now.Mono, before, after)
		}
		if off := time.Since(now.Wall); off < 0 || off > time.Minute {
			t.Fatalf("the wall clock is %s off", off)
		}
	}
}

// A number is not an identity, and what waits for its parent does not run.
func TestAlive(t *testing.T) {
	host := HostFS()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	id := testkit.Value(Identify(host, cmd.Process.Pid))(t)
	other := id.ProcessID
	other.Start--
	if !Alive(host, id.ProcessID) || Alive(host, other) || Alive(host, procstats.ProcessID{}) {
		t.Errorf("alive %v, another of its number %v", Alive(host, id.ProcessID), Alive(host, other))
	}
	must(t, stdin.Close())
	for now := id; !now.Zombie; {
		if now, err = Identify(host, id.PID); err != nil {
			t.Fatal(err)
		}
	}
	if Alive(host, id.ProcessID) {
		t.Error("a zombie is alive")
	}
	must(t, cmd.Wait())
	if Alive(host, id.ProcessID) {
		t.Error("a process that is gone is alive")
	}
}
