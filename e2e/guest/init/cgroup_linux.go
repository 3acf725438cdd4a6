// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// mountCgroups mounts the layout as systemd does and with its options, except that each v1
// controller has a hierarchy of its own.
func mountCgroups(layout string) error {
	if layout == "v2" {
		if err := mountV2(cgroupRoot); err != nil {
			return err
		}
		return enable(cgroupRoot)
	}
	if err := mount(cgroupRoot, "tmpfs", bare, "mode=0755"); err != nil {
		return err
	}
	// subsys_name hierarchy num_cgroups enabled
	table, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) == 4 && f[3] == "1" {
			if err := mountV1(f[0]); err != nil {
				return err
			}
		}
	}
	if layout != "flat" {
		// As systemd does; since Linux 5.11 it cannot be otherwise.
		if err := writeIfThere(filepath.Join(cgroupRoot, "memory/memory.use_hierarchy"), "1"); err != nil {
			return err
		}
	}
	if layout == "hybrid" {
		// All controllers are taken: this one has none.
		return mountV2(filepath.Join(cgroupRoot, "unified"))
	}
	return nil
}

func mountV2(dir string) error { return mount(dir, "cgroup2", bare, "nsdelegate,memory_recursiveprot") }

func mountV1(controller string) error {
	dir := filepath.Join(cgroupRoot, controller)
	err := mount(dir, "cgroup", bare, controller)
	if errors.Is(err, unix.EINVAL) {
		// The table lists it also where the kernel was built without its v1 side
		// (CONFIG_MEMCG_V1 since 6.11, CONFIG_CPUSETS_V1 since 6.12).
		return os.Remove(dir)
	}
	return err
}

func writeIfThere(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// enable gives every controller of the v2 cgroup dir to its children.
func enable(dir string) error {
	names, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
			return fmt.Errorf("enable %s: %w", name, err)
		}
	}
	return nil
}

// delegate gives the user a v2 cgroup to divide, and a leaf in it for the test binary, the way
// systemd's Delegate=yes does. It returns the leaf.
func delegate(user int) (string, error) {
	dir := filepath.Join(cgroupRoot, "delegated")
	leaf := filepath.Join(dir, "session")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return "", err
	}
	if err := enable(dir); err != nil {
		return "", err
	}
	for _, at := range []string{dir, leaf} {
		// Limits stay with the parent
		// (https://docs.kernel.org/admin-guide/cgroup-v2.html#model-of-delegation).
		for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(at, name), user, user); err != nil {
				return "", err
			}
		}
	}
	return leaf, nil
}
