// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/procstats/kernel"
)

// describeMachine adds what tasks find here. The error says why none can run.
func (d *Tacho) describeMachine(f *Fingerprint) error {
	own, err := kernel.FindCgroup(d.host, os.Getpid())
	if err != nil {
		return fmt.Errorf("no /proc to read: %w", err)
	}
	if err := describeSources(f, d.host, own); err != nil {
		return err
	}
	dir := runtimeDir(d.currentConfig())
	if err := checkRuntimeDir("runtime_dir", dir); err != nil {
		return fmt.Errorf("no directory for the executors' sockets: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("no directory for the executors' sockets: %w", err)
	}
	if err := client.CheckOwn(dir); err != nil { // which each start does
		return fmt.Errorf("no place for the sockets of executors: %w", err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("no place for the sockets of executors: %s: %w", dir, err)
	}
	if err := d.checkCgroupParent(); err != nil {
		return err
	}
	if d.binary != "" {
		if err := unix.Access(d.binary, unix.X_OK); err != nil {
			return fmt.Errorf("no executable to run as executor: %s: %w", d.binary, err)
		}
	}
	return nil
}

// checkCgroupParent says why tasks cannot be put below cgroup_parent. All tasks have limits of memory and CPU, which
// are dropped where they cannot be set, but not for root.
func (d *Tacho) checkCgroupParent() error {
	own := d.currentConfig()
	if own.CgroupParent == "" {
		return nil
	}
	var controllers []string
	if own.Enforce && os.Geteuid() == 0 {
		controllers = []string{"memory", "cpu"}
	}
	return cgroup.CheckParent(d.host, own.CgroupParent, controllers...)
}
