// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

const (
	subtreeControl = "cgroup.subtree_control"
	procsFile      = "cgroup.procs"
	tasksFile      = "tasks"
)

// createV2 makes the v2 group below parent or in a better place.
func (m *maker) createV2(parent string) error {
	g, name := m.group, m.name()
	// Beside v1 hierarchies the group is where those are.
	if isPureV2(m.mounts) && m.Parent == "" {
		parent, name = m.place(parent, name)
	}
	dir := filepath.Join(parent, name)
	if m.Planned != nil {
		m.Planned(procstats.Cgroup{V1: g.V1, V2: dir})
	}
	err := makeFolder(dir)
	if m.isRefused("v2", err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create cgroup: %w", noRoom(err, ofGroups, []string{parent}))
	}
	g.V2 = dir
	if reason := g.unusable(); reason != "" {
		g.V2 = ""
		m.refused[reason] = append(m.refused[reason], "v2")
		return removeTree(dir)
	}
	m.enableControllers(parent)
	return nil
}

// place finds the best place for a v2 group without a named parent; own is the executor's own group.
func (m *maker) place(own, name string) (parent, leaf string) {
	g := m.group
	scope, err := enterScope(m.Options)
	switch {
	case err == nil:
		g.Placement, g.executor.V2 = InScope, scope.executor
		return scope.parent, scope.task
	case !errors.Is(err, errNoSystemd):
		g.note("no systemd scope: %v", err)
	}
	switch above := filepath.Dir(own); {
	case isRoot(own):
		g.Placement = Sibling
	case isDelegated(above) && !holdsProcesses(above) && g.reason(above) == "":
		g.Placement = Sibling
		return above, name
	}
	return own, name
}

// enableControllers delegates the parent's controllers to its children as far as the kernel permits.
func (m *maker) enableControllers(parent string) {
	have, handed := readWords(parent, controllersFile), readWords(parent, subtreeControl)
	var missing []string
	for _, controller := range v2Controllers(m.Cpuset) {
		if slices.Contains(have, controller) && !slices.Contains(handed, controller) {
			missing = append(missing, controller)
		}
	}
	if len(missing) == 0 {
		return
	}
	// A group other than the root that contains processes cannot delegate any, cgroups(7) "no internal processes". Some
	// could be tried (cpu, pids), but that makes its children invalid for processes, "thread root".
	if !isRoot(parent) && holdsProcesses(parent) {
		m.group.note("%s contains processes, and such a group cannot delegate controllers", parent)
		return
	}
	reasons := map[string]bool{}
	for _, controller := range missing {
		if err := write(parent, subtreeControl, "+"+controller); err != nil && !reasons[errors.Unwrap(err).Error()] {
			reasons[errors.Unwrap(err).Error()] = true
			m.group.note("controller %s cannot be delegated: %v", controller, err)
		}
	}
}

// holdsProcesses reports whether a v2 group itself has processes; true if that cannot be read.
func holdsProcesses(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, procsFile))
	return err != nil || len(text) > 0
}

// nameV1 returns the v1 name of a v2 controller.
func nameV1(controller string) string {
	if controller == "io" {
		return "blkio"
	}
	return controller
}

// unusable returns why no process of ours can be started in the new v2 group, or an empty string.
func (g *Group) unusable() string {
	// Below a group with threads ("thread root") a new one takes no processes, cgroups(7) "Thread mode".
	if kind := readWords(g.V2, "cgroup.type"); slices.Contains(kind, "invalid") {
		return "groups below " + filepath.Dir(g.V2) + " cannot contain processes: it is in thread mode"
	}
	return g.reason(filepath.Dir(g.V2))
}

// reason returns why no process of ours can be started in groups below a v2 folder. Without privilege the kernel
// requires write access to cgroup.procs of the common ancestor of both groups, cgroups(7) "Delegation".
func (g *Group) reason(dir string) string {
	if g.executor.V2 == "" {
		return "the executor's own cgroup is not visible here"
	}
	ancestor := dir
	for ancestor != "/" && ancestor != g.executor.V2 && !strings.HasPrefix(g.executor.V2, ancestor+"/") {
		ancestor = filepath.Dir(ancestor)
	}
	file := filepath.Join(ancestor, procsFile)
	if err := unix.Access(file, unix.W_OK); err != nil {
		return fmt.Sprintf("%s is not writable: %v", file, err)
	}
	return ""
}
