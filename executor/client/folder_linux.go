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
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/removal"
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
			if folder, ok := strings.CutPrefix(variable, goplugin.EnvUnixSocketDir+"="); ok {
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
