// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// KillSession kills the processes of a session until it finds no more; it misses a process that made a session of its
// own. The number of a session is not reused while it has members, and no member is older than its leader. If another
// process has the leader's PID, the session had ended, and another one may have its number.
func KillSession(ctx context.Context, host kernel.FS, leader procstats.ProcessID) error {
	if leader.PID <= 0 {
		return nil
	}
	const pause = 5 * time.Millisecond
	for {
		left, err := killMembers(host, leader)
		if left == 0 || err != nil && !errors.Is(err, errNotHeld) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s left in session %d: %w",
				procstats.Counted(left, "process", "processes"), leader.PID, context.Cause(ctx)), err)
		case <-time.After(pause):
		}
	}
}

// killMembers kills the members of a session that it finds, and returns how many there were.
func killMembers(host kernel.FS, leader procstats.ProcessID) (left int, err error) {
	if now, err := kernel.Identify(host, leader.PID); err == nil && now.ProcessID != leader {
		return 0, nil
	}
	pids, err := kernel.Processes(host)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		member := func() bool { return inSession(host, pid, leader) }
		if !member() {
			continue
		}
		left++
		if killErr := Kill(pid, member); err == nil {
			err = killErr
		}
	}
	return left, err
}

// Kill kills a process if it is the one that is meant; one that is gone is no error.
func Kill(pid int, meant func() bool) error {
	p, err := Hold(pid, meant, nil)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(p.Signal(unix.SIGKILL), p.Close())
}

func inSession(host kernel.FS, pid int, leader procstats.ProcessID) bool {
	now, err := kernel.Identify(host, pid)
	return err == nil && now.Session == leader.PID && now.Start >= leader.Start && !now.Zombie
}
