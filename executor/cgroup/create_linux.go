// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// Options say what group to make.
type Options struct {
	// FS is where /proc is.
	FS procstats.FS
	// ID becomes part of the folder's name.
	ID string
	// Parent is a group that exists, as a path within the hierarchies; empty for the best place there is.
	Parent string
	// Cpuset asks for the cpuset controller too: on version 1 such a group needs CPUs and nodes written first.
	Cpuset bool
}

// v1Controllers are the version 1 hierarchies a task is put into.
func v1Controllers(cpuset bool) []string {
	controllers := []string{"memory", "cpu", "cpuacct", "pids", "blkio", "freezer"}
	if cpuset {
		controllers = append(controllers, "cpuset")
	}
	return controllers
}

// Create makes the groups of a task in the best place there is: below Parent, in a systemd scope, as a leaf of the
// root, nested below the executor's own group, or nowhere. Only a Parent that cannot be used is an error;
// otherwise the group says in Notes what is lost.
func Create(o Options) (*Group, error) {
	home, err := procstats.FindCgroup(o.FS, os.Getpid())
	if err != nil {
		return None("no cgroup: " + err.Error()), nil
	}
	g := &Group{home: home, Owned: true, Cgroup: procstats.Cgroup{V1: map[string]string{}}}
	base, err := g.base(o)
	if err != nil {
		return nil, err
	}
	name := "tacho-" + o.ID
	for _, controller := range v1Controllers(o.Cpuset) {
		if err := g.createV1(controller, base.V1[controller], name); err != nil {
			return nil, g.abandon(err)
		}
	}
	if err := g.createV2(base.V2, name, o); err != nil {
		return nil, g.abandon(err)
	}
	if !g.Exists() {
		g.Placement = Nowhere
		if len(g.Notes) == 0 {
			g.Notes = append(g.Notes, "no cgroup: no cgroup hierarchy is mounted here")
		}
	}
	return g, nil
}

// abandon removes what was made before an error, so that nothing is left behind.
func (g *Group) abandon(err error) error { return errors.Join(err, g.Remove()) }

// base returns the folders below which the task's group is made.
func (g *Group) base(o Options) (procstats.Cgroup, error) {
	g.Placement = Nested
	if o.Parent == "" {
		return g.home, nil
	}
	g.Placement = InParent
	mounts, err := procstats.CgroupMounts(o.FS)
	if err != nil {
		return procstats.Cgroup{}, fmt.Errorf("find cgroup mounts: %w", err)
	}
	base := procstats.Cgroup{V1: map[string]string{}}
	for _, mount := range mounts {
		dir := filepath.Join(mount.Point, filepath.Clean("/"+o.Parent))
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		if mount.Version == 2 {
			base.V2 = dir
			continue
		}
		for _, controller := range mount.Controllers {
			base.V1[controller] = dir
		}
	}
	if !base.Exists() {
		return base, fmt.Errorf("cgroup parent %s: no such group in any hierarchy; make it first with mkdir", o.Parent)
	}
	return base, nil
}

func (g *Group) createV1(controller, parent, name string) error {
	if parent == "" {
		return nil
	}
	dir := filepath.Join(parent, name)
	if slices.Contains(g.v1Folders(), dir) {
		g.V1[controller] = dir
		return nil
	}
	err := os.Mkdir(dir, 0o755)
	if g.refused(controller, err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create cgroup: %w", err)
	}
	g.V1[controller] = dir
	if controller == "cpuset" {
		return inheritCpuset(parent, dir)
	}
	return nil
}

// refused notes a hierarchy in which we may not make groups and reports whether that is what err says.
func (g *Group) refused(controller string, err error) bool {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		return false
	}
	g.Notes = append(g.Notes, fmt.Sprintf("no %s cgroup: %v", controller, err))
	return true
}

// inheritCpuset fills a new v1 cpuset group: it is empty at first and takes no process before it has CPUs and nodes.
func inheritCpuset(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
		if err := write(dir, file, strings.TrimSpace(string(text))); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) createV2(parent, name string, o Options) error {
	if parent == "" {
		return nil
	}
	pure := len(g.home.V1) == 0
	if pure && o.Parent == "" {
		if scope, err := enterScope(o); err == nil {
			parent, name, g.Placement = scope.parent, scope.task, InScope
			g.home.V2 = scope.executor
		} else if !errors.Is(err, errNoSystemd) {
			g.Notes = append(g.Notes, fmt.Sprintf("no systemd scope: %v", err))
		}
	}
	if pure {
		g.enableControllers(parent)
	}
	dir := filepath.Join(parent, name)
	err := os.Mkdir(dir, 0o755)
	if g.refused("v2", err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create cgroup: %w", err)
	}
	g.V2 = dir
	if reason := g.unreachable(); reason != "" {
		g.V2 = ""
		g.Notes = append(g.Notes, "no v2 cgroup: "+reason)
		return removeTree(dir)
	}
	g.noteLostControllers(pure)
	return nil
}

// unreachable says why a process of ours cannot be put into the new v2 group; empty where it can. Without
// privilege the kernel wants write access to cgroup.procs of the common ancestor of both groups, cgroups(7)
// "Delegation".
func (g *Group) unreachable() string {
	for ancestor := filepath.Dir(g.V2); ; ancestor = filepath.Dir(ancestor) {
		if ancestor != g.home.V2 && !strings.HasPrefix(g.home.V2, strings.TrimSuffix(ancestor, "/")+"/") {
			continue
		}
		file := filepath.Join(ancestor, "cgroup.procs")
		if err := unix.Access(file, unix.W_OK); err != nil {
			return fmt.Sprintf("%s is not writable: %v", file, err)
		}
		return ""
	}
}

// enableControllers hands the parent's controllers on to its children as far as the kernel lets us: a group other
// than the root that holds processes can hand on none, cgroups(7) "no internal processes".
func (g *Group) enableControllers(parent string) {
	text, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return
	}
	enabled, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
	if err != nil {
		return
	}
	for _, controller := range strings.Fields(string(text)) {
		if slices.Contains(strings.Fields(string(enabled)), controller) {
			continue
		}
		if err := write(parent, "cgroup.subtree_control", "+"+controller); err != nil {
			// One note is enough: the first refusal is the reason of all.
			g.Notes = append(g.Notes, fmt.Sprintf("controllers not handed on: %s: %v", parent, err))
			break
		}
	}
	if g.Placement == Nested && isRoot(parent) {
		g.Placement = Sibling
	}
}

// isRoot reports whether a v2 folder is the real root of the hierarchy: only the root has no cgroup.type.
func isRoot(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, fs.ErrNotExist)
}

func (g *Group) noteLostControllers(pure bool) {
	if !pure {
		return
	}
	have := g.v2Controllers()
	var lost []string
	for _, controller := range []string{"memory", "cpu", "io", "pids"} {
		if !slices.Contains(have, controller) {
			lost = append(lost, controller)
		}
	}
	if len(lost) > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("cgroup without the controllers %s: their measurements and limits are not available in %s",
			strings.Join(lost, ", "), g.V2))
	}
}
