// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// findParent finds the group below which a caller wants the groups of tasks, by its path within the hierarchies. A path
// in no hierarchy is an error.
func findParent(mounts []kernel.CgroupMount, path string) (procstats.Cgroup, error) {
	parent := procstats.Cgroup{V1: map[string]string{}}
	path = filepath.Clean("/" + path)
	for _, mount := range mounts {
		dir := filepath.Join(mount.Point, path)
		// A mount can show a part of the hierarchy only.
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(mount.Root, "/")+"/"); ok {
			dir = filepath.Join(mount.Point, below)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		if mount.Version == 2 {
			parent.V2 = dir
			continue
		}
		for _, controller := range mount.Controllers {
			parent.V1[controller] = dir
		}
	}
	if !parent.Exists() {
		return parent, fmt.Errorf("cgroup parent %s: no such group in any hierarchy; create it first with mkdir", path)
	}
	return parent, nil
}

// isMissing reports whether a parent does not exist in the v1 hierarchy of a controller.
func isMissing(parent procstats.Cgroup, mounts []kernel.CgroupMount, controller string) bool {
	return mountedV1(mounts, controller) && parent.V1[controller] == ""
}

// CheckParent returns why no groups can be made below a group, or no groups with some controllers (memory, cpu, io,
// pids), as far as that is known without making any.
func CheckParent(host kernel.FS, path string, controllers ...string) error {
	mounts, err := kernel.CgroupMounts(host)
	if err != nil {
		return fmt.Errorf("find cgroup mounts: %w", err)
	}
	parent, err := findParent(mounts, path)
	if err != nil {
		return err
	}
	controllers = slices.DeleteFunc(slices.Clone(controllers), func(controller string) bool {
		return !isMissing(parent, mounts, nameV1(controller))
	})
	if len(controllers) > 0 {
		return fmt.Errorf("cgroup parent %s: no such group in the hierarchy of %s; create it there", path,
			strings.Join(controllers, ", "))
	}
	return nil
}
