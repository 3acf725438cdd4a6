// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// CgroupMounts lists the mounted cgroup hierarchies that this process sees and can reach, in the order of
// /proc/self/mountinfo; v1 hierarchies without a controller are left out. No mounts are no error.
func CgroupMounts(fs FS) ([]CgroupMount, error) {
	entries, err := Mounts(fs)
	if err != nil {
		return nil, err
	}
	var mounts []CgroupMount
	for _, entry := range entries {
		mount, ok := entry.cgroupMount()
		if !ok || !entry.visible(entries) {
			continue
		}
		if mount.Version == 2 {
			// Where it cannot be read, no controller is known to be there.
			content, _ := os.ReadFile(filepath.Join(mount.Point, "cgroup.controllers"))
			mount.Controllers = strings.Fields(string(content))
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// FindCgroup returns where the cgroups of a process are, from /proc/PID/cgroup and /proc/self/mountinfo below fs.Proc.
// A hierarchy is left out where its folder cannot be named here: not mounted, only a part mounted that does not have
// the process, outside the cgroup namespace, removed. Nothing found is the zero Cgroup and no error. Whether other
// processes live in the same groups it cannot know: Shared is false. The error wraps ENOENT or ESRCH where the
// process does not exist.
func FindCgroup(fs FS, pid int) (procstats.Cgroup, error) {
	data, err := os.ReadFile(filepath.Join(fs.Proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return procstats.Cgroup{}, fmt.Errorf("find cgroup of process %d: %w", pid, err)
	}
	paths, err := parseProcCgroup(data)
	if err != nil {
		return procstats.Cgroup{}, fmt.Errorf("find cgroup of process %d: %w", pid, err)
	}
	mounts, err := CgroupMounts(fs)
	if err != nil {
		return procstats.Cgroup{}, fmt.Errorf("find cgroup of process %d: %w", pid, err)
	}
	var c procstats.Cgroup
	for controller, path := range paths {
		dir := cgroupDir(mounts, controller, path)
		switch {
		case dir == "":
		case controller == "":
			c.V2 = dir
		default:
			if c.V1 == nil {
				c.V1 = map[string]string{}
			}
			c.V1[controller] = dir
		}
	}
	return c, nil
}

// cgroupDir returns the folder of the cgroup at path in the hierarchy of a controller, empty for v2. Of several mounts
// that show it, a writable one is preferred, then the first.
func cgroupDir(mounts []CgroupMount, controller, path string) string {
	found := ""
	for _, mount := range mounts {
		if controller == "" && mount.Version != 2 || controller != "" && (mount.Version != 1 || !slices.Contains(mount.Controllers, controller)) {
			continue
		}
		dir, ok := mount.dir(path)
		if !ok {
			continue
		}
		if !mount.ReadOnly {
			return dir
		}
		if found == "" {
			found = dir
		}
	}
	return found
}

// CgroupAncestors returns the visible parents of a cgroup's folder, the nearest first, up to and with the point at
// which its hierarchy is mounted; none where dir is such a point, or below no mount.
func CgroupAncestors(dir string, mounts []CgroupMount) []string {
	point := ""
	for _, mount := range mounts {
		if within(mount.Point, dir) && len(mount.Point) > len(point) {
			point = mount.Point
		}
	}
	if point == "" {
		return nil
	}
	var parents []string
	for dir = filepath.Clean(dir); dir != point; {
		dir = filepath.Dir(dir)
		parents = append(parents, dir)
	}
	return parents
}

var errProcCgroupLine = errors.New("not a line of /proc/PID/cgroup")

// parseProcCgroup reads "ID:CONTROLLERS:PATH" lines, cgroups(7), into paths by controller; v2 has the empty name.
// Named hierarchies, which have no controller, and removed cgroups are left out.
func parseProcCgroup(data []byte) (map[string]string, error) {
	paths := map[string]string{}
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			continue
		}
		// A path can have colons in it.
		parts := strings.SplitN(text, ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			return nil, fmt.Errorf("%w: %q", errProcCgroupLine, text)
		}
		if strings.HasSuffix(parts[2], " (deleted)") {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			if controller == "" && parts[0] != "0" || strings.HasPrefix(controller, "name=") {
				continue
			}
			paths[controller] = parts[2]
		}
	}
	return paths, nil
}
