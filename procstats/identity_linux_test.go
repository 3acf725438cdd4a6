// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"os/exec"
	"testing"

	"github.com/tachograph/tacho/procstats"
)

// A number is not an identity, and what waits for its parent does not run.
func TestAlive(t *testing.T) {
	host := procstats.HostFS()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := procstats.Identify(host, cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := id.ProcessID
	other.Start--
	if !id.Alive(host) || other.Alive(host) || (procstats.ProcessID{}).Alive(host) {
		t.Errorf("alive %v, another of its number %v", id.Alive(host), other.Alive(host))
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for now := id; !now.Zombie; {
		if now, err = procstats.Identify(host, id.PID); err != nil {
			t.Fatal(err)
		}
	}
	if id.Alive(host) {
		t.Error("a zombie is alive")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if id.Alive(host) {
		t.Error("a process that is gone is alive")
	}
}
