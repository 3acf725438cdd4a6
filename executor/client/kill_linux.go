// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
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

// abandonLimit bounds how long an executor may take to end with a task that is not wanted.
const abandonLimit = 10 * time.Second

// Abandon ends an executor whose start was given up, with whatever it has started: a call of Launch that was canceled
// may have done its work. One that does not end is killed. It closes the client.
func (c *Client) Abandon() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*abandonLimit)
	defer cancel()
	return errors.Join(End(ctx, c.Address(), unix.SIGKILL, 0), c.Close())
}

// End ends an executor and its task, also of another owner: the task gets a signal, 0 for its own, and the grace. An
// executor that does not answer, or does not end, is killed, and what is left of its task with it.
func End(ctx context.Context, address wire.Address, signal syscall.Signal, grace time.Duration) error {
	if Find(address) == nil {
		asked := askToEnd(ctx, address, signal, grace)
		if err := kill(ctx, address.Executor); err != nil {
			return fmt.Errorf("end executor of %s: %w", address.ID, errors.Join(asked, err))
		}
	}
	return KillTask(ctx, address)
}

// kill kills a process, and waits for its end.
func kill(ctx context.Context, id procstats.ProcessID) error {
	killed, err := watch(id, nil, nil)
	if errors.Is(err, ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = killed.Signal(unix.SIGKILL); err == nil {
		select {
		case <-killed.gone:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return errors.Join(err, killed.close())
}

// EndOwner kills the process that owns an executor: a driver that its host has replaced by the caller, because it did
// not answer. The error wraps ErrOwned if that is not known, or is this process.
func EndOwner(ctx context.Context, address wire.Address) error {
	host := kernel.HostFS()
	lock, err := os.Stat(filepath.Join(address.Folder, LockFile))
	if err != nil {
		return fmt.Errorf("find owner of executor: %w", err)
	}
	locks, err := os.ReadFile(filepath.Join(host.Proc, "locks"))
	for line := range strings.Lines(string(locks)) { // 1: FLOCK  ADVISORY  WRITE 4711 fe:00:815 0 EOF
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" {
			continue
		}
		pid, _ := strconv.Atoi(fields[4]) // 0 for one of another PID namespace
		owner, gone := kernel.Identify(host, pid)
		if gone == nil && pid != os.Getpid() && holds(host, pid, lock) {
			return kill(ctx, owner.ProcessID)
		}
	}
	return errors.Join(fmt.Errorf("find owner of executor in %s: %w", address.Folder, ErrOwned), err)
}

// holds reports whether a process has opened a file.
func holds(host kernel.FS, pid int, file os.FileInfo) bool {
	links, _ := filepath.Glob(filepath.Join(host.Proc, strconv.Itoa(pid), "fd", "*")) // the pattern is valid
	return slices.ContainsFunc(links, func(link string) bool {
		info, err := os.Stat(link)
		return err == nil && os.SameFile(info, file)
	})
}

// askToEnd stops a task and then its executor.
func askToEnd(ctx context.Context, address wire.Address, signal syscall.Signal, grace time.Duration) error {
	visit, cancel := context.WithTimeout(ctx, silenceLimit)
	defer cancel()
	c, err := Visit(visit, address)
	if err != nil {
		return err
	}
	stop, cancel := context.WithTimeout(ctx, grace+abandonLimit)
	defer cancel()
	err = c.Stop(stop, signal, grace)
	if err == nil || status.Code(err) == codes.FailedPrecondition { // there is no task
		err = c.Shutdown(stop)
	}
	return errors.Join(err, c.Close())
}

// Kill kills an executor that does not answer. The caller that learns of the loss kills what is left of its task.
func (c *Client) Kill(ctx context.Context) error {
	if err := c.process.Signal(unix.SIGKILL); err != nil {
		return fmt.Errorf("kill executor of %s: %w", c.address.ID, err)
	}
	return c.awaitExit(ctx)
}

// KillTask kills what is left of the task at an address whose executor is gone, and removes the executor's folder.
func KillTask(ctx context.Context, address wire.Address) error {
	if newest, err := wire.ReadAddress(address.Folder); err == nil && newest.Executor == address.Executor {
		address = *newest // it may have started its task since
	}
	if err := KillProcesses(ctx, address); err != nil {
		return err
	}
	return RemoveFolder(address.Folder)
}

// KillProcesses kills what is left of the task at an address whose executor is gone, and removes its cgroup. With a
// cgroup nothing can escape; without one the members of the task's session are found in /proc, best effort: a process
// that made a session of its own is missed. A task of an earlier boot is gone already.
func KillProcesses(ctx context.Context, address wire.Address) error {
	err := Find(address)
	switch {
	case errors.Is(err, ErrOtherBoot):
		return nil
	case err == nil:
		return fmt.Errorf("kill task %s: its executor %d is running; ask it to stop", address.ID, address.Executor.PID)
	case !errors.Is(err, ErrLost):
		return fmt.Errorf("kill task %s: %w", address.ID, err)
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
	return nil
}

// Find decides what is known of an executor, as [kernel.Find] does of its process. It returns nil if the executor runs,
// ErrLost or ErrOtherBoot if it has ended, see IsGone, and an error that wraps a [kernel.ElsewhereError] if that
// is not known: nothing of it may be signalled or removed then.
//
// An executor in another namespace has ended as with an earlier boot if nothing listens on its socket, it has no owner,
// and its cgroup is empty. Without a cgroup that is only sure of a PID namespace: a container takes all its processes
// with it.
func Find(address wire.Address) error {
	newest, err := wire.ReadAddress(address.Folder)
	if address.PIDNamespace == "" && err == nil && newest.Executor == address.Executor {
		address.Home, address.Socket = newest.Home, newest.Socket // handles of earlier builds had less
	}
	err = kernel.Find(kernel.HostFS(), address.Home, address.Executor, address.Socket)
	switch {
	case errors.Is(err, kernel.InNamespace) && hasVanished(address):
		return ErrOtherBoot
	case errors.Is(err, kernel.ErrEnded) && !errors.Is(err, ErrOtherBoot):
		return ErrLost
	case err != nil:
		return fmt.Errorf("it is %w", err)
	}
	return nil
}

func hasVanished(address wire.Address) bool {
	if Owned(address) || !errors.Is(kernel.Connect(address.Socket), unix.ECONNREFUSED) {
		return false
	}
	if !address.Cgroup.Encloses() {
		return address.PIDNamespace != kernel.PIDNamespace(kernel.HostFS())
	}
	members := kernel.NewCgroupProcs(address.Cgroup, new([]byte))
	pids, unseen, err := members.List(nil)
	return errors.Join(err, members.Close()) == nil && len(pids)+unseen == 0
}

// IsGone reports whether an error of this package, or of Find, says that an executor has ended.
func IsGone(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrOtherBoot) }

// Alive reports whether the executor of an address runs, and is that executor. One that is elsewhere may.
func Alive(address wire.Address) bool { return !IsGone(Find(address)) }
