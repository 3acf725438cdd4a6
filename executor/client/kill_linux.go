// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// KillTask kills what is left of the task of an executor that died, and removes its cgroup and the executor's folder.
func (c *Client) KillTask(ctx context.Context) error {
	select {
	case <-c.Lost():
	default:
		return errors.New("kill task: its executor is alive; ask it to stop")
	}
	return KillTask(ctx, c.Address())
}

// Kill kills an executor that does not answer, and what is left of its task then.
func (c *Client) Kill(ctx context.Context) error {
	if err := c.life.kill(); err != nil {
		return fmt.Errorf("kill executor of %s: %w", c.address.ID, err)
	}
	select {
	case <-c.Lost():
		return c.KillTask(ctx)
	case <-ctx.Done():
		return fmt.Errorf("executor of %s does not end: %w", c.address.ID, context.Cause(ctx))
	}
}

// KillTask kills what is left of the task at an address whose executor is gone. With a cgroup nothing can escape;
// without one the members of the task's session are found in /proc, best effort: a process that made a session of
// its own is missed. A task of an earlier boot is gone already.
func KillTask(ctx context.Context, address wire.Address) error {
	boot, err := kernel.BootID(kernel.HostFS())
	if err != nil {
		return err
	}
	if boot != address.BootID {
		return os.RemoveAll(address.Folder)
	}
	if kernel.Alive(kernel.HostFS(), address.Executor) {
		return fmt.Errorf("kill task %s: its executor %d is alive; ask it to stop", address.ID, address.Executor.PID)
	}
	if address.Cgroup.Encloses() {
		err = cgroup.Of(address.Cgroup, address.Owned).Empty(ctx)
	} else {
		// A task with a terminal is in its executor's session, every other leads its own.
		err = errors.Join(killSession(ctx, address.Main), killSession(ctx, address.Executor))
	}
	if err != nil {
		return fmt.Errorf("kill task %s: %w", address.ID, err)
	}
	return os.RemoveAll(address.Folder)
}

// Alive reports whether the executor of an address runs, and is that executor.
func Alive(address wire.Address) bool {
	boot, err := kernel.BootID(kernel.HostFS())
	return err == nil && boot == address.BootID && kernel.Alive(kernel.HostFS(), address.Executor)
}

// killSession kills the processes of a session until none is found. The number of a session cannot be used again
// while it has members, and no member is older than its leader. Where another process has the leader's PID, the session
// was empty before, and another may have its number now.
func killSession(ctx context.Context, leader procstats.ProcessID) error {
	if leader.PID == 0 {
		return nil
	}
	const pause = 5 * time.Millisecond
	for {
		left, err := killMembers(leader)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes left: %w", left, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

func killMembers(leader procstats.ProcessID) (left int, err error) {
	host := kernel.HostFS()
	if now, err := kernel.Identify(host, leader.PID); err == nil && now.ProcessID != leader {
		return 0, nil
	}
	folders, err := filepath.Glob(filepath.Join(host.Proc, "[0-9]*"))
	if err != nil {
		return 0, err
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || !isMember(host, pid, leader) {
			continue
		}
		left++
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// Looked at again now that the number is held: it may have been used again in between.
		if isMember(host, pid, leader) {
			err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		if closeErr := unix.Close(fd); err == nil {
			err = closeErr
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return left, fmt.Errorf("kill %d: %w", pid, err)
		}
	}
	return left, nil
}

func isMember(host kernel.FS, pid int, leader procstats.ProcessID) bool {
	id, err := kernel.Identify(host, pid)
	return err == nil && id.Session == leader.PID && id.Start >= leader.Start && !id.Zombie
}
