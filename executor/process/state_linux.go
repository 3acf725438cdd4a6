// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// State tells whether a process runs, was killed, or has ended.
type State int

const (
	// Alive processes run, or wait.
	Alive State = iota
	// Killed processes are dying, or have died, of a SIGKILL.
	Killed
	// Gone processes have ended in an unknown way, or otherwise than by a SIGKILL.
	Gone
)

// StateOf returns the state of a process that was seen before. A pending SIGKILL counts as its end.
func StateOf(host kernel.FS, id procstats.ProcessID) State {
	exit, err := kernel.ReadExit(host, id.PID)
	killed := unix.WaitStatus(exit.Status).Signal() == unix.SIGKILL
	pending := exit.Pending&(1<<(unix.SIGKILL-1)) != 0
	switch {
	case err != nil || exit.ProcessID != id:
		return Gone
	case exit.Zombie && !killed:
		return Gone
	case exit.Zombie, exit.Signaled, pending:
		return Killed
	}
	return Alive
}
