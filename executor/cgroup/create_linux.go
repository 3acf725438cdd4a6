// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Options describe the groups to make.
type Options struct {
	// FS is where /proc is.
	FS kernel.FS
	// ID becomes part of the folder's name.
	ID string
	// Parent is a group that exists, as a path within the hierarchies; empty for the best place there is.
	Parent string
	// Cpuset requests the cpuset controller too: on version 1 such a group needs CPUs and nodes first.
	Cpuset bool
	// CPU requests the cpu controller also where a group of it loses the task something: there are limits for it.
	CPU bool
	// CpusetDir is the absolute path of a group in the v1 cpuset hierarchy that the host manages, perhaps for many
	// tasks. The task joins it instead of a group of its own, in which it would miss the host's changes of CPUs.
	CpusetDir string
	// Planned is called with groups before they are made, so that they are found if this process dies meanwhile; may be
	// nil.
	Planned func(procstats.Cgroup)
}

// v1Controllers returns the version 1 hierarchies that a task is put into.
func v1Controllers(cpuset bool) []string {
	return withCpuset(cpuset, "memory", "cpu", "cpuacct", "pids", "blkio", "freezer")
}

// v2Controllers returns the version 2 controllers that a task's group should have.
func v2Controllers(cpuset bool) []string { return withCpuset(cpuset, "memory", "cpu", "io", "pids") }

func withCpuset(cpuset bool, controllers ...string) []string {
	if cpuset {
		return append(controllers, "cpuset")
	}
	return controllers
}

// maker makes the groups of one task.
type maker struct {
	Options

	group  *Group
	mounts []kernel.CgroupMount
	v1     []string // the hierarchies of version 1 that groups are made in
	// refused maps the kernel's reasons to the hierarchies in which no groups can be made.
	refused map[string][]string
}

// Create makes the groups of a task in the best place there is: below Parent, in a systemd scope, as a leaf of the
// root or of what was delegated to this user, nested below the executor's own group, or nowhere. Only a Parent that
// cannot be used is an error; otherwise the group says in Notes what is lost.
func Create(o Options) (*Group, error) {
	own, err := kernel.FindCgroup(o.FS, os.Getpid())
	if err != nil {
		return None("no cgroup: " + err.Error()), nil
	}
	mounts, err := kernel.CgroupMounts(o.FS)
	if err != nil {
		return None("no cgroup: " + err.Error()), nil
	}
	m := &maker{Options: o, mounts: mounts, refused: map[string][]string{}, group: &Group{
		executor: own, sought: true, Owned: true, Placement: Nested, Cgroup: procstats.Cgroup{V1: map[string]string{}},
	}}
	if err := m.make(); err != nil {
		// Nothing is left behind.
		return nil, errors.Join(err, m.group.Remove())
	}
	return m.group, nil
}

func (m *maker) make() error {
	if err := m.joinCpuset(); err != nil {
		return err
	}
	base := m.group.executor
	m.v1 = m.hierarchies()
	if m.Parent != "" {
		var err error
		if base, err = findParent(m.mounts, m.Parent); err != nil {
			return err
		}
		m.group.Placement = InParent
		reason := m.Parent + " does not exist in that hierarchy; create it there"
		for _, controller := range m.v1 {
			if isMissing(base, m.mounts, controller) {
				m.refused[reason] = append(m.refused[reason], controller)
			}
		}
	}
	m.plan(base)
	for _, controller := range m.v1 {
		if err := m.createV1(controller, base.V1[controller]); err != nil {
			return err
		}
	}
	if base.V2 != "" {
		if err := m.createV2(base.V2); err != nil {
			return err
		}
	}
	m.noteRefused()
	if m.group.Exists() {
		m.noteLost()
	} else {
		m.group.Placement = Nowhere
		if len(m.group.Notes) == 0 {
			m.group.note("no cgroup: %s", m.whyNone())
		}
	}
	return nil
}

// realtimeFile is what the real-time tasks of a v1 group may use, with CONFIG_RT_GROUP_SCHED: 0 in a new one, which
// takes none and lets none become one.
const realtimeFile = "cpu.rt_runtime_us"

// hierarchies returns where groups are made on version 1. In cpu that is only for limits, or in a place that was asked
// for, if the task may have a real-time priority where it is now: quotas and throttling of that place are measured, and
// CPU time in cpuacct or version 2.
func (m *maker) hierarchies() []string {
	all, own := v1Controllers(m.Cpuset), m.group.executor
	cpu := own.V1["cpu"]
	if m.CPU || m.Parent != "" || cpu == "" || cpu == own.V1["cpuacct"] && own.V2 == "" {
		return all
	}
	if budget, err := readNumber(cpu, realtimeFile); err != nil || budget == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(controller string) bool { return own.V1[controller] == cpu })
}

// plan announces the v1 groups that will be made, and the v2 group that will be beside them.
func (m *maker) plan(base procstats.Cgroup) {
	c := procstats.Cgroup{V1: make(map[string]string)}
	for _, controller := range m.v1 {
		if parent := base.V1[controller]; parent != "" {
			c.V1[controller] = filepath.Join(parent, m.name())
		}
	}
	if base.V2 != "" {
		c.V2 = filepath.Join(base.V2, m.name())
	}
	if m.Planned != nil && len(c.V1) > 0 {
		m.Planned(c)
	}
}

// joinCpuset uses the host's cpuset instead of one for the task.
func (m *maker) joinCpuset() error {
	if m.CpusetDir == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(m.CpusetDir, tasksFile)); err != nil {
		return fmt.Errorf("use the host's cpuset: %w", err)
	}
	if !m.Cpuset && isBlank(m.CpusetDir, cpusetFile) {
		// A caller without limits does not name CPUs either.
		m.group.note("not in the host's cpuset %s: it has no CPUs", m.CpusetDir)
		return nil
	}
	m.group.cpuset, m.Cpuset = m.CpusetDir, false
	return nil
}

func (m *maker) whyNone() string {
	if len(m.mounts) == 0 {
		return "no cgroup hierarchy is mounted here"
	}
	return "the cgroup of this process is not visible here (a cgroup namespace, or only a part is mounted)"
}

// makeFolder makes a group. One of the same name without processes was left by an executor that was killed; it is
// made anew, so that its counters begin at 0.
func makeFolder(dir string) error {
	err := makeVisible(dir)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := removeTree(dir); err != nil {
		return fmt.Errorf("it is in use: %w", err)
	}
	return makeVisible(dir)
}

// makeVisible makes a group whose limits a task of any user can read, whatever the umask says.
func makeVisible(dir string) error {
	const mode = 0o755
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

func (m *maker) createV1(controller, parent string) error {
	if parent == "" {
		return nil
	}
	dir := filepath.Join(parent, m.name())
	if slices.Contains(m.group.v1Folders(), dir) {
		m.group.V1[controller] = dir
		return nil
	}
	err := makeFolder(dir)
	if m.isRefused(controller, err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create cgroup: %w", err)
	}
	if err := m.canLeave(controller, parent); err != nil {
		m.refused[err.Error()] = append(m.refused[err.Error()], controller)
		return removeTree(dir)
	}
	m.group.V1[controller] = dir
	switch controller {
	case "cpuset":
		return inheritCpuset(parent, dir)
	case "memory":
		return useHierarchy(dir)
	}
	return nil
}

// useHierarchy puts groups that the task makes under the account and the limit of its own, which can only be said while
// there are none. Since Linux 5.11 they always are; before, the default was that of the group above.
func useHierarchy(dir string) error {
	const file = "memory.use_hierarchy"
	if on, ok := kernel.ReadNumber(filepath.Join(dir, file)); !ok || on != 0 {
		return nil
	}
	return write(dir, file, "1")
}

// canLeave returns an error if the thread that forks the task could not leave a v1 group again: it needs write access
// to its own group, or at least to the group above.
func (m *maker) canLeave(controller, parent string) error {
	file := filepath.Join(m.group.executor.V1[controller], tasksFile)
	if unix.Access(file, unix.W_OK) == nil {
		return nil
	}
	file = filepath.Join(parent, tasksFile)
	if err := unix.Access(file, unix.W_OK); err != nil {
		return fmt.Errorf("%s is not writable: %w", file, err)
	}
	return nil
}

// isRefused reports whether an error says that no groups can be made in a hierarchy, and notes it.
func (m *maker) isRefused(hierarchy string, err error) bool {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		return false
	}
	reason := err.Error()
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		// One reason for hierarchies that differ only in the folder.
		reason = failed.Err.Error()
	}
	m.refused[reason] = append(m.refused[reason], hierarchy)
	return true
}

// noteRefused notes the lost hierarchies, one sentence for each reason.
func (m *maker) noteRefused() {
	what := "no cgroup"
	if m.group.Exists() {
		what = "no group"
	}
	for _, reason := range slices.Sorted(maps.Keys(m.refused)) {
		m.group.note("%s in %s: %s", what, strings.Join(m.refused[reason], ", "), reason)
	}
}

// noteLost notes the controllers that no group of the task has, except for v1 hierarchies that noteRefused names.
func (m *maker) noteLost() {
	var lost []string
	for _, controller := range v2Controllers(false) {
		v1 := nameV1(controller)
		if m.group.V1[v1] == "" && !m.group.Has(controller) && !mountedV1(m.mounts, v1) {
			lost = append(lost, controller)
		}
	}
	if len(lost) > 0 {
		m.group.note("no cgroup with %s: measurements and limits of these are not available", strings.Join(lost, ", "))
	}
}

// inheritCpuset fills a new v1 cpuset group: it is empty at first, and takes no process without CPUs and nodes.
func inheritCpuset(parent, dir string) error {
	for _, file := range []string{cpusetFile, memsFile} {
		text, err := readText(parent, file)
		if err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
		if err := write(dir, file, text); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) name() string { return "tacho-" + m.ID }

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
