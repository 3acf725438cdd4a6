// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CgroupMount is one mounted cgroup hierarchy that this process can see.
type CgroupMount struct {
	// Point is the folder at which it is mounted.
	Point string
	// Root is the cgroup that is at Point, relative to the cgroup namespace of this process: "/" where the whole
	// hierarchy is, another path for bind mounts of a part, "/.." and upwards for what is outside the namespace.
	Root string
	// Version is 1 or 2.
	Version int
	// Controllers are those bound to a v1 hierarchy, or those that can be enabled below a v2 mount.
	Controllers []string
	// ReadOnly reports that no groups can be made in it and no limits set.
	ReadOnly bool
	// Options are those of a v2 hierarchy.
	Options []string
}

// Mount is a line of /proc/PID/mountinfo, proc_pid_mountinfo(5).
type Mount struct {
	// Root is the folder of the file system that is at Point.
	Root, Point string
	// FSType names the file system: proc, cgroup2, tmpfs.
	FSType string
	// Options are those of the mount, SuperOptions those of the file system.
	Options, SuperOptions []string

	id, parent int
}

// Mounts lists the mounts that this process sees, in the order of /proc/self/mountinfo: of two at one point the later
// one is on top.
func Mounts(fs FS) ([]Mount, error) {
	name := filepath.Join(fs.Proc, "self", "mountinfo")
	data, err := ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	mounts, err := parseMountinfo(data)
	if err != nil {
		return nil, fmt.Errorf("list mounts: parse %s: %w", name, err)
	}
	return mounts, nil
}

// Has reports whether the mount is that of a controller of version 1, or of version 2 for the empty name.
func (m CgroupMount) Has(controller string) bool {
	if controller == "" {
		return m.Version == 2
	}
	return m.Version == 1 && slices.Contains(m.Controllers, controller)
}

// MountOf returns the first mount of a controller of version 1, or of version 2 for the empty name.
func MountOf(mounts []CgroupMount, controller string) (mount CgroupMount, ok bool) {
	i := slices.IndexFunc(mounts, func(m CgroupMount) bool { return m.Has(controller) })
	if i < 0 {
		return CgroupMount{}, false
	}
	return mounts[i], true
}

// controllersV1 are all that cgroup v1 ever had; it gets no new ones. The list distinguishes controllers from the
// other words among the options of a mount (xattr, seclabel, release_agent=...).
func controllersV1() []string {
	return []string{
		"cpu", "cpuacct", "cpuset", "memory", "blkio", "pids", "freezer", "devices",
		"net_cls", "net_prio", "perf_event", "hugetlb", "rdma", "misc", "debug",
	}
}

var errMountinfoLine = errors.New("not a mountinfo line")

// parseMountinfo reads all of a mountinfo file. Other lines are an error: guessing which mounts there are would read
// another task's cgroup.
func parseMountinfo(data []byte) ([]Mount, error) {
	var mounts []Mount
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			continue
		}
		m, err := parseMountinfoLine(line)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// parseMountinfoLine reads
//
//	36 35 98:0 /root /point rw,noatime master:1 - fstype source rw,errors=continue
//
// with any number of words before the hyphen.
func parseMountinfoLine(line string) (Mount, error) {
	words := strings.Split(line, " ")
	hyphen := slices.Index(words, "-")
	if hyphen < 6 || len(words) < hyphen+4 {
		return Mount{}, errMountinfoLine
	}
	id, err := strconv.Atoi(words[0])
	parent, err2 := strconv.Atoi(words[1])
	if err != nil || err2 != nil {
		return Mount{}, errMountinfoLine
	}
	return Mount{
		Root: Unescape(words[3], `\`, 8), Point: Unescape(words[4], `\`, 8),
		Options: strings.Split(words[5], ","), SuperOptions: strings.Split(words[hyphen+3], ","),
		FSType: words[hyphen+1], id: id, parent: parent,
	}, nil
}

// Unescape undoes what the kernel writes for bytes that would not be read as they are: a prefix and the number of the
// byte, in a base, four characters together.
func Unescape(s, prefix string, base int) string {
	if !strings.Contains(s, prefix) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if i+3 < len(s) && strings.HasPrefix(s[i:], prefix) {
			if n, err := strconv.ParseUint(s[i+len(prefix):i+4], base, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// visible reports whether the mount can be reached by its path: nothing is mounted over it or over a folder above it.
func (m Mount) visible(all []Mount) bool {
	for _, other := range all {
		if other.parent == m.id && other.Point == m.Point && other.id != m.id {
			return false
		}
	}
	// A mount that is put on a folder above an older one of the same parent hides it; a younger one would have it as
	// its parent. The first of all mounts can be its own parent.
	for range all { // no chain of parents is longer
		for _, other := range all {
			sibling := other.parent == m.parent && other.id != m.id && other.id != m.parent
			if sibling && other.Point != m.Point && within(other.Point, m.Point) {
				return false
			}
		}
		parent := slices.IndexFunc(all, func(other Mount) bool { return other.id == m.parent })
		if parent < 0 || all[parent].id == m.id {
			break
		}
		m = all[parent]
	}
	return true
}

// cgroupMount returns what a mount entry says about cgroups; ok is false for other file systems and for named v1
// hierarchies without a controller.
func (m Mount) cgroupMount() (mount CgroupMount, ok bool) {
	mount = CgroupMount{
		Point: m.Point, Root: m.Root,
		ReadOnly: slices.Contains(m.Options, "ro") || slices.Contains(m.SuperOptions, "ro"),
	}
	switch m.FSType {
	case "cgroup2":
		mount.Version, mount.Options = 2, m.SuperOptions
		return mount, true
	case "cgroup":
		mount.Version = 1
		for _, controller := range controllersV1() {
			if slices.Contains(m.SuperOptions, controller) {
				mount.Controllers = append(mount.Controllers, controller)
			}
		}
		return mount, len(mount.Controllers) > 0
	}
	return CgroupMount{}, false
}

// dir returns the folder below the mount that holds the cgroup at p, a path as /proc/PID/cgroup has it; ok is false
// where the mount does not show it.
func (m CgroupMount) dir(p string) (dir string, ok bool) {
	root := strings.TrimSuffix(m.Root, "/")
	below, ok := strings.CutPrefix(p, root)
	if !ok || !strings.HasPrefix(p, "/") || below != "" && below[0] != '/' {
		return "", false
	}
	// The path goes up where the cgroup is outside the namespace of this process; its folder has no name then.
	if slices.Contains(strings.Split(below, "/"), "..") {
		return "", false
	}
	return path.Join(m.Point, below), true
}

// within reports whether p is folder or below it.
func within(folder, p string) bool {
	below, ok := strings.CutPrefix(p, strings.TrimSuffix(folder, "/"))
	return ok && (below == "" || below[0] == '/')
}
