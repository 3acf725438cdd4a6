// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// parent is a group below which a caller wants the groups of tasks.
type parent struct {
	procstats.Cgroup
	// path is within the hierarchies.
	path string
	// missing are the folders that it lacks, by v1 controller.
	missing map[string]string
}

// findParent finds a group by its path. A path in no hierarchy is an error.
func findParent(mounts []kernel.CgroupMount, path string) (parent, error) {
	p := parent{
		Cgroup: procstats.Cgroup{V1: map[string]string{}}, path: filepath.Clean("/" + path), missing: map[string]string{},
	}
	for _, mount := range mounts {
		dir := filepath.Join(mount.Point, p.path)
		// A mount can show a part of the hierarchy only.
		if below, ok := strings.CutPrefix(p.path, strings.TrimSuffix(mount.Root, "/")+"/"); ok {
			dir = filepath.Join(mount.Point, below)
		}
		info, err := os.Stat(dir)
		isThere := err == nil && info.IsDir()
		if isThere && mount.Version == 2 {
			p.V2 = dir
			continue
		}
		for _, controller := range mount.Controllers {
			if isThere {
				p.V1[controller] = dir
			} else {
				p.missing[nameV1(controller)] = dir
			}
		}
	}
	if !p.Exists() {
		return p, fmt.Errorf("cgroup parent %s: no such group in any hierarchy; create it first with mkdir", path)
	}
	return p, nil
}

// CheckParent returns why no groups can be made below a group, or no groups with some controllers (memory, cpu, io,
// pids), as far as that is known without making any.
func CheckParent(host kernel.FS, path string, controllers ...string) error {
	mounts, err := kernel.CgroupMounts(host)
	if err != nil {
		return fmt.Errorf("find cgroup mounts: %w", err)
	}
	p, err := findParent(mounts, path)
	if err != nil {
		return err
	}
	var lacks []string
	for _, controller := range controllers {
		if dir := p.missing[nameV1(controller)]; dir != "" {
			lacks = append(lacks, fmt.Sprintf("no such group in the hierarchy of %s; to get it: %s",
				controller, makeParent(dir, nameV1(controller))))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("cgroup parent %s: %s", path, strings.Join(lacks, "; "))
	}
	return nil
}
