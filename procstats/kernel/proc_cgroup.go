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
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// CgroupMounts lists the mounted cgroup hierarchies that this process sees and can reach, in the order of
// /proc/self/mountinfo; v1 hierarchies without a controller are left out. No mounts are no error.
func CgroupMounts(fs FS) ([]CgroupMount, error) {
	known := fs.mounts
	if known == nil || time.Now().After(known.until) {
		return readCgroupMounts(fs)
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	var err error
	if known.list == nil {
		known.list, err = readCgroupMounts(fs)
	}
	return known.list, err
}

// knownMounts are those of a while, see [FS.Knowing].
type knownMounts struct {
	until time.Time

	mu   sync.Mutex // guards following
	list []CgroupMount
}

func readCgroupMounts(fs FS) (mounts []CgroupMount, err error) {
	entries, err := Mounts(fs)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		mount, ok := entry.cgroupMount()
		if !ok || !entry.visible(entries) {
			continue
		}
		if mount.Version == 2 {
			// Where it cannot be read, no controller is known to be there.
			content, _ := ReadFile(filepath.Join(mount.Point, "cgroup.controllers"))
			mount.Controllers = strings.Fields(string(content))
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// HasCgroupOption reports whether the v2 mount that a cgroup's folder is below has an option: memory_localevents, or
// memory_hugetlb_accounting, since Linux 6.6.
func HasCgroupOption(fs FS, dir, option string) bool {
	mounts, err := CgroupMounts(fs)
	has := func(m CgroupMount) bool { return slices.Contains(m.Options, option) && within(m.Point, dir) }
	return err == nil && slices.ContainsFunc(mounts, has)
}

// FindCgroup returns where the cgroups of a process are, from /proc/PID/cgroup and /proc/self/mountinfo below fs.Proc.
// A hierarchy is left out where its folder cannot be named here: not mounted, only a part mounted that does not have
// the process, outside the cgroup namespace, removed. Nothing found is the zero Cgroup and no error. Whether other
// processes live in the same groups it cannot know: Shared is false. The error wraps ENOENT or ESRCH where the
// process does not exist.
func FindCgroup(fs FS, pid int) (procstats.Cgroup, error) {
	paths := map[string]string{}
	data, err := ReadFile(fs.path(pid, "cgroup"))
	if err == nil {
		err = eachCgroup(data, func(controller, path []byte) { paths[string(controller)] = string(path) })
	}
	var mounts []CgroupMount
	if err == nil {
		mounts, err = CgroupMounts(fs)
	}
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
		dir, ok := mount.dir(path)
		switch {
		case !ok || !mount.Has(controller):
		case !mount.ReadOnly:
			return dir
		case found == "":
			found = dir
		}
	}
	return found
}

// CgroupPaths are the paths of one cgroup as /proc/PID/cgroup has them, by controller, v2 under the empty name.
type CgroupPaths map[string]string

// PathsOf returns the paths of a cgroup whose directories are below mounts that this process sees; one that is below
// none is left out.
func PathsOf(c procstats.Cgroup, mounts []CgroupMount) CgroupPaths {
	paths := CgroupPaths{}
	add := func(controller, dir string) {
		own := slices.DeleteFunc(slices.Clone(mounts), func(m CgroupMount) bool { return !m.Has(controller) })
		if mount, ok := cgroupMountOf(dir, own); ok {
			paths[controller] = mount.path(dir)
		}
	}
	add("", c.V2)
	for controller, dir := range c.V1 {
		add(controller, dir)
	}
	return paths
}

// Outside calls yield with each controller in whose hierarchy a process is in another cgroup than this one and those
// nested in it; data is the process's /proc/PID/cgroup.
func (p CgroupPaths) Outside(data []byte, yield func(controller string)) error {
	return eachCgroup(data, func(controller, at []byte) {
		if path, ours := p[string(controller)]; ours && path != string(at) && !within(path, string(at)) {
			yield(string(controller))
		}
	})
}

// EndedOutside reports whether a process that has ended and was not reaped is in another v2 cgroup than this one and
// those nested in it. The v1 hierarchies say of a process that is ending that it is in their roots.
func (p CgroupPaths) EndedOutside(fs FS, pid int) (outside bool) {
	data, err := ReadFile(fs.path(pid, "cgroup"))
	if err == nil {
		err = p.Outside(data, func(controller string) { outside = outside || controller == "" })
	}
	return err == nil && outside
}

// CgroupAncestors returns the visible parents of a cgroup's folder, the nearest first, up to and with the point at
// which its hierarchy is mounted; none where dir is such a point, or below no mount.
func CgroupAncestors(dir string, mounts []CgroupMount) []string {
	mount, ok := cgroupMountOf(dir, mounts)
	if !ok {
		return nil
	}
	var parents []string
	for dir = filepath.Clean(dir); dir != mount.Point; {
		dir = filepath.Dir(dir)
		parents = append(parents, dir)
	}
	return parents
}

// IsCgroupRoot reports whether a folder is the root of its hierarchy, and not only the top of what a namespace or a
// bind mount shows: release_agent is only in the one, cgroup.type in all but it.
func IsCgroupRoot(version int, dir string) bool {
	if version == 1 {
		_, err := os.Lstat(filepath.Join(dir, "release_agent"))
		return err == nil
	}
	_, err := os.Lstat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

// CgroupPath returns the path of a cgroup's folder within its hierarchy, as far up as this process sees it; the folder
// itself if it is below no mount.
func CgroupPath(dir string, mounts []CgroupMount) string {
	mount, ok := cgroupMountOf(dir, mounts)
	if !ok {
		return dir
	}
	return filepath.Join("/", mount.path(dir))
}

// path is the reverse of dir.
func (m CgroupMount) path(dir string) string {
	return strings.TrimSuffix(m.Root, "/") + strings.TrimPrefix(filepath.Clean(dir), strings.TrimSuffix(m.Point, "/"))
}

// cgroupMountOf returns the mount that a cgroup's folder is in.
func cgroupMountOf(dir string, mounts []CgroupMount) (mount CgroupMount, ok bool) {
	for _, m := range mounts {
		if within(m.Point, dir) && len(m.Point) > len(mount.Point) {
			mount, ok = m, true
		}
	}
	return mount, ok
}

var errProcCgroupLine = errors.New("not a line of /proc/PID/cgroup")

// eachCgroup reads "ID:CONTROLLERS:PATH" lines, cgroups(7), and yields each controller with its path; v2 has the empty
// name. Named hierarchies, which have no controller, and removed cgroups are left out.
func eachCgroup(data []byte, yield func(controller, path []byte)) error {
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		number, rest, _ := cutAt(line, ':')
		controllers, path, _ := cutAt(rest, ':') // a path can have colons in it
		switch {
		case len(line) == 0 || bytes.HasPrefix(path, []byte("/")) && bytes.HasSuffix(path, []byte(" (deleted)")):
			continue
		case !bytes.HasPrefix(path, []byte("/")):
			return fmt.Errorf("%w: %q", errProcCgroupLine, line)
		}
		for more := true; more; {
			var name []byte
			name, controllers, more = cutAt(controllers, ',')
			if named := bytes.HasPrefix(name, []byte("name=")); !named && (len(name) > 0 || string(number) == "0") {
				yield(name, path)
			}
		}
	}
	return nil
}

// ControllerDisabled reports whether the last column of /proc/cgroups, enabled, is 0 for a controller, cgroups(7). Some
// kernels leave out of the file what they have for v2 only; those are not disabled.
func ControllerDisabled(fs FS, controller string) bool {
	text, _ := ReadFile(filepath.Join(fs.Proc, "cgroups")) // of one that cannot be read no column is known
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[0] == controller {
			return fields[3] == "0"
		}
	}
	return false
}
