// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Child is the PID of a child of this process. Callers of its methods ensure that no goroutine reaps children
// meanwhile: until a child is reaped its PID, and the process group of the same number, are not reused.
type Child int

// Signal sends a signal to the child. The error wraps ErrGone if it is not a child, or has been reaped.
func (c Child) Signal(signal unix.Signal) error { return c.send(int(c), signal) }

// SignalGroup sends a signal to the process group that the child has made.
func (c Child) SignalGroup(signal unix.Signal) error { return c.send(-int(c), signal) }

func (c Child) send(target int, signal unix.Signal) error {
	if c <= 0 {
		return ErrGone
	}
	err := unix.Waitid(unix.P_PID, int(c), nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == nil {
		err = unix.Kill(target, signal)
	}
	if errors.Is(err, unix.ECHILD) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal child %d: %w", c, ErrGone)
	}
	if err != nil {
		return fmt.Errorf("signal child %d: %w", c, err)
	}
	return nil
}

// KillChildren kills and reaps all children of this process. No other goroutine may reap them. It lists them only if
// there are any: the directory entries of this process's threads, which that makes, are flushed one by one at its end,
// while its parent waits for all of them in a loop (proc_invalidate_siblings_dcache in the kernel's fs/proc/inode.c).
func KillChildren(ctx context.Context, host kernel.FS) error {
	const pause = 2 * time.Millisecond
	for !reapEnded() {
		children, err := kernel.Children(host, os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range children {
			if err := Child(pid).Signal(unix.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
				return err
			}
		}
		if reapEnded() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill children: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
	}
	return nil
}

// reapEnded reaps every child that has ended, and reports whether no child is left.
func reapEnded() (none bool) {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return true
		case pid <= 0 && !errors.Is(err, unix.EINTR):
			return false
		}
	}
}
