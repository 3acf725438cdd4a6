// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel_test

import (
	"os/exec"
	"testing"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// A number is not an identity, and what waits for its parent does not run.
func TestAlive(t *testing.T) {
	host := kernel.HostFS()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := kernel.Identify(host, cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := id.ProcessID
	other.Start--
	if !kernel.Alive(host, id.ProcessID) || kernel.Alive(host, other) || kernel.Alive(host, procstats.ProcessID{}) {
		t.Errorf("alive %v, another of its number %v", kernel.Alive(host, id.ProcessID), kernel.Alive(host, other))
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for now := id; !now.Zombie; {
		if now, err = kernel.Identify(host, id.PID); err != nil {
			t.Fatal(err)
		}
	}
	if kernel.Alive(host, id.ProcessID) {
		t.Error("a zombie is alive")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if kernel.Alive(host, id.ProcessID) {
		t.Error("a process that is gone is alive")
	}
}
