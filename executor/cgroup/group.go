// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package cgroup makes, fills, empties and removes the control groups of one task, on cgroup version 2, on
// version 1 with a folder per controller, and on hosts that have both mounted.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Placement names the place in which a group was found or made.
type Placement string

const (
	// InParent groups were made below a group that the caller named.
	InParent Placement = "parent"
	// InScope groups are a leaf of a systemd scope made for the task, with the controllers delegated.
	InScope Placement = "systemd"
	// Sibling groups are leaves of the real root, or leaves beside the executor's own group if the group above was
	// delegated to its user. They have all controllers that the group above can delegate.
	Sibling Placement = "sibling"
	// Nested groups are below the executor's own group. On pure version 2 such a group has no controllers: CPU time,
	// pressure and kill work, memory does not.
	Nested Placement = "nested"
	// Given groups were created by another program and are not removed.
	Given Placement = "given"
	// Nowhere is no group at all.
	Nowhere Placement = "none"
)

// Group is the control groups of one task, one folder per hierarchy.
type Group struct {
	procstats.Cgroup
	// Owned groups are removed by Remove.
	Owned     bool
	Placement Placement
	// Notes tell the user what is missing in this place, and why.
	Notes []string
	// cpuset is a folder of the v1 cpuset hierarchy that the host made, perhaps for many tasks, and in which it moves
	// CPUs meanwhile. New processes join it, but it is not part of this group. Empty without one.
	cpuset string
	// executor are the executor's own groups: a thread that starts a task moves back there.
	executor procstats.Cgroup
	// limits are those of the task here, nil without any, and cpus are those of its cpuset.
	limits *proto.Limits
	cpus   heldCPUs
	// sought groups were looked for by Create: other rights, or another host, could give more.
	sought bool
}

// None returns the group of a task without groups, with the reason.
func None(reason string) *Group {
	g := &Group{Placement: Nowhere}
	if reason != "" {
		g.Notes = append(g.Notes, reason)
	}
	return g
}

func (g *Group) note(format string, args ...any) {
	g.Notes = append(g.Notes, fmt.Sprintf(format, args...))
}

// Use returns a group that another program created and will remove. The root of a hierarchy can only be shared.
func Use(host kernel.FS, folders procstats.Cgroup) (*Group, error) {
	g := &Group{Cgroup: folders, Placement: Given}
	mounts, err := kernel.CgroupMounts(host)
	if err != nil {
		return nil, fmt.Errorf("use cgroup: %w", err)
	}
	for _, mount := range mounts {
		if g.Encloses() && slices.Contains(g.Folders(), filepath.Clean(mount.Point)) {
			return nil, fmt.Errorf("use cgroup: %s is the root of its hierarchy, with all processes of the host in it",
				mount.Point)
		}
	}
	for _, dir := range g.Folders() {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			return nil, fmt.Errorf("use cgroup: %w", err)
		}
	}
	own, err := kernel.FindCgroup(host, os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("find own cgroup: %w", err)
	}
	g.executor = own
	return g, nil
}

// Folders returns the distinct folders of the group, v2 first.
func (g *Group) Folders() []string {
	var dirs []string
	if g.V2 != "" {
		dirs = append(dirs, g.V2)
	}
	return append(dirs, g.v1Folders()...)
}

func (g *Group) v1Folders() []string {
	var dirs []string
	for _, dir := range g.V1 {
		// Several controllers can be mounted together: cpu,cpuacct.
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

const controllersFile = "cgroup.controllers"

// Has reports whether a controller's files are there for this group.
func (g *Group) Has(controller string) bool {
	return g.V1[controller] != "" || g.V2 != "" && slices.Contains(readWords(g.V2, controllersFile), controller)
}

// readWords reads a file of words; none if it cannot be read.
func readWords(dir, file string) []string {
	text, _ := kernel.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(text))
}

// Remove deletes the groups that Create made, nested ones first. It ignores groups that are gone; groups with
// processes are an error.
func (g *Group) Remove() error {
	if !g.Owned {
		return nil
	}
	var errs []error
	for _, dir := range g.Folders() {
		errs = append(errs, removeTree(dir))
	}
	return errors.Join(errs...)
}

// removeTree removes a cgroup folder and those below it. It uses only rmdir: their files cannot be deleted. What a task
// has mounted on one of them stays.
func removeTree(dir string) error {
	if err := syscall.Rmdir(dir); err == nil || errors.Is(err, fs.ErrNotExist) { // most have none below them
		return nil
	}
	entries, err := readFolder(dir)
	if err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

// readFolder reads a folder of the mount that its parent is on.
func readFolder(dir string) ([]fs.DirEntry, error) {
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	fd, err := kernel.OpenFolder(int(parent.Fd()), filepath.Base(dir))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	folder := os.NewFile(uintptr(fd), dir)
	defer folder.Close()
	return folder.ReadDir(-1)
}

// Of returns a group that was created earlier, for callers that adopt it.
func Of(folders procstats.Cgroup, owned bool) *Group {
	return &Group{Cgroup: folders, Owned: owned, Placement: Given}
}
