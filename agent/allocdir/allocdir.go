// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package allocdir makes the directories of allocations and reads the log files in them. Tasks own much of what is in them,
// so nothing is followed out of them: a task's symbolic link to a file of the host's is never read.
//
//	ID/alloc/{data,logs,tmp}         shared by the allocation's tasks
//	ID/TASK/{local,secrets,tmp}      the task's own; it runs in ID/TASK
package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Allocation is one allocation's directory.
type Allocation string

// In returns an allocation's directory below the directory of all.
func In(dir, allocID string) Allocation { return Allocation(filepath.Join(dir, allocID)) }

// Task is the directory in which a task runs.
func (a Allocation) Task(name string) string { return filepath.Join(string(a), name) }

// Shared is the directory that all tasks of the allocation see.
func (a Allocation) Shared() string { return filepath.Join(string(a), "alloc") }

// Logs is where the tasks' log files are.
func (a Allocation) Logs() string { return filepath.Join(a.Shared(), "logs") }

// History is a task's history file. It is beside the directories that tasks can write to.
func (a Allocation) History(task string) string {
	return filepath.Join(string(a), ".history", task)
}

// Owner is whose a task's directories are.
type Owner struct{ UID, GID int }

// MakeLogs makes the directory of the logs, where it is not there. They are for the user of this process and for the group of the
// tasks' users, if these have one. Users of several groups have the logs shown to everybody who knows their path: tasks of one
// allocation may read each other's.
func (a Allocation) MakeLogs(owners []*Owner) error {
	mode, group := fs.FileMode(0o700), (*Owner)(nil)
	for _, owner := range owners {
		switch {
		case owner == nil:
		case group == nil:
			mode, group = 0o750, &Owner{UID: -1, GID: owner.GID}
		case group.GID != owner.GID:
			mode = 0o755
		}
	}
	for _, path := range []string{string(a), a.Shared()} {
		if err := makeDir(path, passing, nil); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := makeDir(a.Logs(), mode, group); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

// passing is the mode of directories that users of tasks pass through without listing anything. They are for everybody: a task may
// change its user by itself.
const passing = 0o711

// Make makes the directories of one of its tasks, where they are not there. owner is nil for tasks that run as this process does.
// [Allocation.MakeLogs] comes first.
func (a Allocation) Make(task string, owner *Owner) error {
	const shared, own, secret = 0o777, 0o755, 0o700
	dirs := []struct {
		path string
		mode fs.FileMode
	}{
		{filepath.Join(a.Shared(), "data"), shared},
		{filepath.Join(a.Shared(), "tmp"), shared},
		{a.Task(task), own},
		{filepath.Join(a.Task(task), "local"), own},
		{filepath.Join(a.Task(task), "secrets"), secret},
		{filepath.Join(a.Task(task), "tmp"), own},
	}
	for i, dir := range dirs {
		of := owner
		if firstOwn := 2; i < firstOwn {
			of = nil
		}
		if err := makeDir(dir.path, dir.mode, of); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// makeDir makes a directory where there is none. What is done to it is done within its parent: where that is a task's own,
// the task may have put a link there meanwhile.
func makeDir(path string, mode fs.FileMode, owner *Owner) (err error) {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	name := filepath.Base(path)
	if err := parent.Mkdir(name, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if err := parent.Chmod(name, mode); err != nil { // whatever the umask says
		return err
	}
	if owner == nil {
		return nil
	}
	return parent.Lchown(name, owner.UID, owner.GID)
}

// WriteFile writes a file within a task's directory, by a path from there. The task cannot lead it elsewhere.
func (a Allocation) WriteFile(task, path string, text []byte, mode fs.FileMode, owner *Owner) (err error) {
	root, err := os.OpenRoot(a.Task(task))
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write file: %w", err)
	}
	f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode))
	if owner != nil {
		err = errors.Join(err, f.Chown(owner.UID, owner.GID))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// Remove removes everything of an allocation.
func (a Allocation) Remove() error {
	if err := os.RemoveAll(string(a)); err != nil {
		return fmt.Errorf("remove allocation directory: %w", err)
	}
	return nil
}
