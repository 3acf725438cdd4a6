// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/wire"
)

// DefaultRuntimeDir returns where executors' folders are kept for this user: /run/tacho for root, below
// XDG_RUNTIME_DIR for a logged-in user, else in the folder for temporary files.
func DefaultRuntimeDir() string {
	if os.Geteuid() == 0 {
		return "/run/tacho"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "tacho")
	}
	return filepath.Join(os.TempDir(), "tacho-"+strconv.Itoa(os.Geteuid()))
}

// makeFolder makes an executor's folder. A runtime folder that others can write to, or that is not ours, is refused:
// whoever owns it could put a socket of their own there.
func makeFolder(runtimeDir, folder string) error {
	if err := os.MkdirAll(runtimeDir, 0o700); err != nil {
		return fmt.Errorf("make runtime folder: %w", err)
	}
	info, err := os.Lstat(runtimeDir)
	if err != nil {
		return fmt.Errorf("make runtime folder: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("runtime folder %s: must be a folder of our own that nobody else can write to", runtimeDir)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("make executor folder: %w", err)
	}
	return nil
}

// lock makes this process the one owner of an executor, flock(2); the kernel gives the lock up with the process.
func lock(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, "owner.lock"), os.O_RDWR|os.O_CREATE, 0o600)
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
	f, err := lock(address.Folder)
	if err != nil {
		return errors.Is(err, ErrOwned)
	}
	_ = f.Close() // gives the lock up again
	return false
}

// List returns the addresses of all executors in a runtime folder, live ones and strays. Folders without an
// address, of executors that never launched a task, are passed over.
func List(runtimeDir string) ([]*wire.Address, error) {
	entries, err := os.ReadDir(runtimeDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list executors: %w", err)
	}
	var all []*wire.Address
	var errs []error
	for _, entry := range entries {
		address, err := wire.ReadAddress(filepath.Join(runtimeDir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, address)
	}
	return all, errors.Join(errs...)
}
