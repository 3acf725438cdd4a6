// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats/kernel"
)

// KillTask kills what is left of the task of an executor that died, and removes its cgroup and the executor's folder.
func (c *Client) KillTask(ctx context.Context) error {
	select {
	case <-c.Lost():
	default:
		return errors.New("kill task: its executor is running; ask it to stop")
	}
	return KillTask(ctx, c.Address())
}

// Kill kills an executor that does not answer, and what is left of its task then.
func (c *Client) Kill(ctx context.Context) error {
	if err := c.process.Signal(unix.SIGKILL); err != nil {
		return fmt.Errorf("kill executor of %s: %w", c.address.ID, err)
	}
	select {
	case <-c.Lost():
		return c.KillTask(ctx)
	case <-ctx.Done():
		return fmt.Errorf("wait for executor of %s to exit: %w", c.address.ID, context.Cause(ctx))
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
		return fmt.Errorf("kill task %s: its executor %d is running; ask it to stop", address.ID, address.Executor.PID)
	}
	if address.Cgroup.Encloses() {
		err = cgroup.Of(address.Cgroup, address.Owned).Empty(ctx)
	} else {
		// A task with a terminal is in its executor's session, every other leads its own.
		host := kernel.HostFS()
		err = errors.Join(process.KillSession(ctx, host, address.Main), process.KillSession(ctx, host, address.Executor))
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
