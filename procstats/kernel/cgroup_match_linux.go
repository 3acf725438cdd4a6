// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// MatchCgroups adds the cgroups whose paths match a pattern, level by level as in [path.Match]. The pattern is relative
// to the mounts of all hierarchies, or a path below one of them, which is then the one to show its hierarchy. A group
// has the directories of all hierarchies that it is in, under its path from the mount. looked tells whether others have
// appeared since.
func MatchCgroups(mounts []CgroupMount, pattern string, into map[string]procstats.Cgroup, looked *Looked) {
	pattern = path.Clean(pattern)
	named := CgroupMount{} // the innermost that the pattern is below
	for _, m := range mounts {
		if within(m.Point, pattern) && len(m.Point) > len(named.Point) {
			named = m
		}
	}
	below := strings.Split(strings.Trim(strings.TrimPrefix(pattern, named.Point), "/"), "/")
	for _, m := range mounts {
		same := m.Version == named.Version && slices.Equal(m.Controllers, named.Controllers)
		if same && m.Point != named.Point {
			continue
		}
		for _, dir := range looked.match(m.Point, below) {
			name := strings.TrimPrefix(dir, strings.TrimSuffix(m.Point, "/"))
			group := into[name] // another mount of the hierarchy can have shown it
			if m.Version == 2 {
				group.V2 = cmp.Or(group.V2, dir)
			} else if group.V1 == nil {
				group.V1 = make(map[string]string)
			}
			for _, controller := range m.Controllers {
				if m.Version == 1 {
					group.V1[controller] = cmp.Or(group.V1[controller], dir)
				}
			}
			into[name] = group
		}
	}
}

// Looked are directories that were looked through for cgroups, with their link counts of before: in cgroup file systems
// (kernfs), that of one is the number of those in it plus two.
type Looked struct {
	dirs  []string
	links uint64
}

// Changed reports whether the number of directories has changed since.
func (l *Looked) Changed() bool {
	now := Looked{}
	for _, dir := range l.dirs {
		now.add(dir)
	}
	return now.links != l.links
}

func (l *Looked) add(dir string) {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) == nil { // else it is gone
		l.links += uint64(stat.Nlink) //nolint:unconvert // it is smaller on arm64
	}
	l.dirs = append(l.dirs, dir)
}

// match returns the directories below dir that names lead to.
func (l *Looked) match(dir string, names []string) []string {
	level := []string{dir}
	for _, name := range names {
		var next []string
		for _, dir := range level {
			if !strings.ContainsAny(name, `*?[\`) {
				if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
					next = append(next, filepath.Join(dir, name))
				} else {
					l.add(filepath.Join(dir, name)) // it may appear
				}
				continue
			}
			l.add(dir)
			entries, _ := os.ReadDir(dir) // of one that has just been removed
			for _, entry := range entries {
				if ok, _ := path.Match(name, entry.Name()); ok && entry.IsDir() {
					next = append(next, filepath.Join(dir, entry.Name()))
				}
			}
		}
		level = next
	}
	return level
}

// containerName is what container engines call the cgroup of a container: docker-ID.scope, libpod-ID, crio-ID.scope,
// cri-containerd-ID.scope, lxc.payload.NAME, or ID.
//
//nolint:gochecknoglobals // constant, compiled with the first use
var containerName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[a-z][a-z-]*-)?([0-9a-f]{64})(?:\.scope)?$|^lxc\.payload\.(.+)$`)
})

// ContainerOf returns the id or the name of the container that a cgroup's name is of; empty if it is of none.
func ContainerOf(name string) (container string) {
	if id := containerName().FindStringSubmatch(name); id != nil {
		container = id[1] + id[2]
	}
	return container
}

// NomadGroup returns the allocation and the task that Nomad's drivers put into the name of a cgroup, ALLOC.TASK.scope;
// empty if the name is another.
func NomadGroup(name string) (alloc, task string) {
	const uuid = len("00000000-0000-0000-0000-000000000000")
	alloc, task, found := strings.Cut(strings.TrimSuffix(name, ".scope"), ".")
	if !found || len(alloc) != uuid || strings.Count(alloc, "-") != 4 || strings.Trim(alloc, "0123456789abcdef-") != "" {
		return "", ""
	}
	return alloc, task
}

// NomadTask returns the allocation and the task that Nomad has put into the environment of a process; empty if it has
// none, or is not ours to see.
func NomadTask(fs FS, pid int) (alloc, task string) {
	environ, _ := os.ReadFile(fs.path(pid, "environ"))
	value := func(name string) string {
		_, rest, _ := strings.Cut("\x00"+string(environ), "\x00"+name+"=")
		text, _, _ := strings.Cut(rest, "\x00")
		return text
	}
	return value("NOMAD_ALLOC_ID"), value("NOMAD_TASK_NAME")
}
