// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process/processtest"
)

// Without a pidfd another process may have the number by the time of the signal.
func TestKillNeedsAPidfd(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := identify("", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	processtest.WithoutPidfds(t, func() {
		if err := kill(address); !errors.Is(err, unix.ENOSYS) {
			t.Errorf("kill without a pidfd: %v", err)
		}
	})
	if err := kill(address); err != nil {
		t.Errorf("kill: %v", err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // it is one on Linux
		t.Errorf("ended with %v, want by SIGKILL", err)
	}
	if err := kill(address); err != nil {
		t.Errorf("kill what is gone: %v", err)
	}
}
