// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/removal"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// unfinished begins the names of folders that are no executor's yet.
const unfinished = ".start-"

// makeFolder makes an executor's folder and owns it. The folder gets its name with the lock in it: whatever a starter
// that is killed leaves is known for what it is.
func makeFolder(ctx context.Context, runtimeDir, id string) (*os.File, error) {
	for {
		owner, err := nameFolder(ctx, filepath.Join(runtimeDir, unfinished+id), filepath.Join(runtimeDir, id))
		if err == nil {
			failpoint.At("client.start.named")
			return owner, nil
		}
		if !errors.Is(err, errRemoved) {
			return nil, fmt.Errorf("create executor directory: %w", err)
		}
	}
}

// errRemoved says that removeUnfinished took a folder for an abandoned one: it came before the lock.
var errRemoved = errors.New("removed by another process")

// nameFolder makes a folder, locks it and gives it its name.
func nameFolder(ctx context.Context, temporary, name string) (*os.File, error) {
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return nil, err
	}
	err := failpoint.Err("client.start.directory")
	var owner *os.File
	if err == nil {
		owner, err = lock(ctx, temporary)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRemoved
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(temporary))
	}
	failpoint.At("client.start.locked")
	err = os.Rename(temporary, name) // a name that is taken is a folder with a file
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(errRemoved, owner.Close())
	}
	if err != nil {
		return nil, errors.Join(err, RemoveFolder(temporary), owner.Close())
	}
	return owner, nil
}

// removeUnfinished removes what starters that were killed have left of makeFolder.
func removeUnfinished(runtimeDir string) error {
	folders, err := listFolders(runtimeDir, true)
	errs := []error{err}
	for _, folder := range folders {
		if checkOwn(folder) != nil || os.Remove(folder) == nil { // it is empty before it is locked
			continue
		}
		if err := RemoveAbandoned(folder); !errors.Is(err, ErrOwned) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// RemoveFolder removes an executor's folder. That opens directories: if this process is short of descriptors, which may
// be why a start has failed, others are about to be closed. Readers of a task write files into the folder at any time:
// what was written meanwhile is removed too, and nothing can be written once the folder is gone.
func RemoveFolder(folder string) error {
	const pause, limit = 10 * time.Millisecond, 2 * time.Second
	for began := time.Now(); ; {
		err := removal.All(context.Background(), folder)
		passes := errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, removal.ErrWritten)
		if !passes || time.Since(began) > limit {
			return err
		}
		<-time.After(pause)
	}
}

// LockFile is what an executor's owner locks; by it the folder is known for one of an executor.
const LockFile = "owner.lock"

// lock makes this process the one owner of an executor, flock(2); the kernel gives the lock up with the process. An
// owner that is about to end, or a process that only checks whether there is one, is waited for.
func lock(ctx context.Context, folder string) (*os.File, error) {
	const pause, limit = 10 * time.Millisecond, 2 * time.Second
	for began := time.Now(); ; {
		f, err := lockWith(folder, os.O_CREATE)
		if !errors.Is(err, ErrOwned) || time.Since(began) > limit {
			return f, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func lockWith(folder string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, LockFile), os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock executor: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrOwned
		}
		return nil, errors.Join(fmt.Errorf("lock executor in %s: %w", folder, err), f.Close())
	}
	return f, nil
}

// Owned reports whether a live process owns an executor, or what it left behind.
func Owned(address wire.Address) bool {
	f, err := lockWith(address.Folder, 0)
	if err != nil {
		return errors.Is(err, ErrOwned)
	}
	_ = f.Close() // gives the lock up again
	return false
}

// List returns the addresses of all executors in a runtime folder, live ones and orphans. Folders without an
// address, of executors that never launched a task, are passed over, and so is what is no folder.
func List(runtimeDir string) ([]*wire.Address, error) {
	folders, err := listFolders(runtimeDir, false)
	if err != nil {
		return nil, err
	}
	var all []*wire.Address
	var errs []error
	for _, folder := range folders {
		address, err := wire.ReadAddress(folder)
		if err == nil {
			all = append(all, address)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// Folders returns the paths of the executors' folders in a runtime folder, with an address or without. Others may
// keep theirs beside them: an executor's belongs to this user alone and has the file that its owner locks. What
// starters that were killed have left is removed.
func Folders(runtimeDir string) ([]string, error) {
	folders, err := listFolders(runtimeDir, false)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(folders, func(folder string) bool {
		info, err := os.Lstat(filepath.Join(folder, LockFile))
		return err != nil || !info.Mode().IsRegular() || checkOwn(folder) != nil
	}), removeUnfinished(runtimeDir)
}

// listFolders returns the paths of the folders in a runtime folder, unfinished ones or the others. A symbolic link is
// none.
func listFolders(runtimeDir string, isUnfinished bool) ([]string, error) {
	entries, err := os.ReadDir(runtimeDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list executors: %w", err)
	}
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), unfinished) == isUnfinished {
			folders = append(folders, filepath.Join(runtimeDir, entry.Name()))
		}
	}
	return folders, nil
}

// RunningDirs returns the runtime directories of the executors that run here, whatever their owners have chosen; of
// other users' executors only root is told.
func RunningDirs(host kernel.FS) []string {
	pids, _ := kernel.Processes(host) // nothing is found without /proc
	var dirs []string
	for _, pid := range pids {
		process := filepath.Join(host.Proc, strconv.Itoa(pid))
		command, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if err != nil || !bytes.HasPrefix(command, []byte("tacho\x00executor\x00")) {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join(process, "environ")) // it may be another user's
		for variable := range strings.SplitSeq(string(environment), "\x00") {
			if folder, ok := strings.CutPrefix(variable, wire.SocketDir+"="); ok {
				dirs = append(dirs, filepath.Dir(folder))
			}
		}
	}
	return dirs
}

// RemoveAbandoned removes one of Folders, of a dead executor. The error wraps ErrOwned if a live process
// owns it; a folder that is gone is no error.
func RemoveAbandoned(folder string) error {
	owner, err := lockWith(folder, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(RemoveFolder(folder), owner.Close())
}

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
	return c.AwaitExit(ctx)
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
