// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// hidden is the group below which tasks are made in a namespace.
const hidden = "/jobs"

// unshare runs a command in a cgroup namespace as a container has it: args are the path of a group in every
// hierarchy, "log" or "" for whether the kernel's log can be read, and the command. The root of the namespace is a
// new group below that one; in it tasks can be made below hidden.
func unshare(args []string) (code int, err error) {
	mounts, err := kernel.CgroupMounts(kernel.HostFS())
	if err != nil {
		return 0, err
	}
	mounts = slices.DeleteFunc(mounts, func(m kernel.CgroupMount) bool {
		_, err := os.Stat(filepath.Join(m.Point, args[0]))
		return err != nil
	})
	// Namespaces belong to a thread; the command takes this one over.
	runtime.LockOSThread()
	for _, mount := range mounts {
		if err := enterBelow(filepath.Join(mount.Point, args[0]), mount.Version == 2); err != nil {
			return 0, err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS); err != nil {
		return 0, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("make mounts private: %w", err)
	}
	for _, mount := range mounts {
		if err := mountAgain(mount); err != nil {
			return 0, err
		}
	}
	if args[1] == "" {
		if err := unix.Mount("/dev/null", "/dev/kmsg", "", unix.MS_BIND, ""); err != nil {
			return 0, fmt.Errorf("hide the kernel's log: %w", err)
		}
	}
	return 0, unix.Exec(args[2], args[2:], os.Environ())
}

// enterBelow makes a group for the namespace and enters it.
func enterBelow(dir string, v2 bool) error {
	inner := filepath.Join(dir, "namespace")
	if err := os.Mkdir(inner, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err // two controllers can share a folder
	}
	if v2 {
		if err := enableAll(dir); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte("0"), 0)
}

// mountAgain puts what is visible inside in the place of what was visible outside.
func mountAgain(mount kernel.CgroupMount) error {
	fstype, options := "cgroup", strings.Join(mount.Controllers, ",")
	if mount.Version == 2 {
		fstype, options = "cgroup2", ""
	}
	if err := unix.Unmount(mount.Point, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", mount.Point, err)
	}
	if err := unix.Mount(fstype, mount.Point, fstype, 0, options); err != nil {
		return fmt.Errorf("mount %s: %w", mount.Point, err)
	}
	if err := os.Mkdir(mount.Point+hidden, 0o755); err != nil {
		return err
	}
	if mount.Version == 1 || len(mount.Controllers) == 0 {
		return nil
	}
	leaf := filepath.Join(mount.Point, "leaf")
	return errors.Join(
		os.Mkdir(leaf, 0o755),
		os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0),
		enableAll(mount.Point),
	)
}

func enableAll(dir string) error {
	names, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
			return err
		}
	}
	return nil
}

// first runs a command as the first process of a PID namespace that this process was started in.
func first(args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return unix.Exec(args[0], args, os.Environ())
}
