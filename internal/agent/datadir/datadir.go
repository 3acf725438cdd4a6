// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package datadir knows the paths in the data directory of an agent, for the agent and for commands that look for it,
// makes the directories of allocations, and reads the log files in them. Tasks own much of their content, so no path
// leads out of them: a symbolic link of a task to a file of the host is never read.
//
//	alloc/ID/alloc/{data,logs,tmp}         shared by the allocation's tasks
//	alloc/ID/TASK/{local,secrets,tmp}      the task's own; it runs in alloc/ID/TASK
package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/internal/removal"
)

// Default is the data directory of an agent without another in its configuration.
const Default = "/var/lib/tacho"

// devPattern matches the names of directories that NewDev creates.
const devPattern = "tacho-dev-*"

// Longest is how many bytes the path of a data directory may have, so that a socket can be created in it under a
// temporary name.
const Longest = paths.LongestSocket - len("/.s4294967295/s")

// devRoot returns where development agents of this user have their data directories.
func devRoot() string { return paths.TempDir(Longest - len("/tacho-dev-4294967295")) }

// NewDev creates the temporary data directory of a development agent.
func NewDev() (string, error) {
	dir, err := os.MkdirTemp(devRoot(), devPattern)
	if err != nil {
		err = fmt.Errorf("%w (TMPDIR or --data-dir chooses another directory)", err)
	}
	return dir, err
}

// AllDev returns the data directories of development agents of this user, the newest first. Other users can create
// directories of the same name: they are skipped.
func AllDev() []string {
	dirs, _ := filepath.Glob(filepath.Join(devRoot(), devPattern)) // fails only for malformed patterns
	modified := map[string]time.Time{}
	dirs = slices.DeleteFunc(dirs, func(path string) bool {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !isOurs(info) {
			return true
		}
		modified[path] = info.ModTime()
		return false
	})
	slices.SortFunc(dirs, func(a, b string) int { return modified[b].Compare(modified[a]) })
	return dirs
}

// Socket returns the unix socket of an agent.
func Socket(dataDir string) string { return filepath.Join(dataDir, "tacho.sock") }

// Executors returns the directory of an agent's executors.
func Executors(dataDir string) string { return filepath.Join(dataDir, "run") }

// sharedPrefix starts the name of the directory of an agent's executors below a runtime directory.
const sharedPrefix = "agent-"

// SharedName returns the name of the directory of an agent's executors below a runtime directory, which tacho run and
// other agents may share.
func SharedName(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return sharedPrefix + hex.EncodeToString(sum[:4])
}

// AllExecutors returns the directories that may have executors: runtime directories, those of agents below them, and
// those in data directories.
func AllExecutors(runtimeDirs, dataDirs []string) []string {
	dirs := slices.Clone(runtimeDirs)
	for _, runtimeDir := range runtimeDirs {
		found, _ := filepath.Glob(filepath.Join(runtimeDir, sharedPrefix+"*")) // fails only for malformed patterns
		dirs = append(dirs, found...)
	}
	for _, dataDir := range dataDirs {
		dirs = append(dirs, Executors(dataDir))
	}
	return dirs
}

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
	return filepath.Join(string(a), ".history3", task)
}

// EarlierHistory is the history file of the previous version of tacho.
func (a Allocation) EarlierHistory(task string) string {
	return filepath.Join(string(a), ".history", task)
}

// Owner owns the directories of a task. Ids of -1 are those of a user that does not exist yet: the start of its task
// fails.
type Owner struct{ UID, GID int }

// entry is a directory to be made.
type entry struct {
	path string
	mode fs.FileMode
	of   *Owner // nil for the user of this process
}

// uid is the user that owns; nil is the user of this process.
func (o *Owner) uid() int {
	if o == nil {
		return os.Geteuid()
	}
	return o.UID
}

// passing is the mode of directories that users of tasks pass through and cannot list. Any user can, because a task
// of root may change its user.
const passing = 0o711

// MakePassing makes a directory that users of tasks pass through to their own, with the missing ones above it,
// whatever the umask says. If this process is root, they can pass through one of its own that is there, too.
func MakePassing(dir string) error {
	err := os.Mkdir(dir, passing)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err := MakePassing(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, passing)
	}
	info, statErr := os.Stat(dir)
	switch {
	case statErr != nil:
		return errors.Join(err, statErr)
	case !info.IsDir():
		return err
	case err == nil, os.Geteuid() == 0 && isOurs(info) && info.Mode()&passing != passing:
		return os.Chmod(dir, info.Mode()|passing)
	}
	return nil
}

// MakeShared makes the missing directories that all tasks of an allocation see. owners are the owners of the tasks:
// one user owns what the tasks write to, and of several none can remove what another has written.
// The user of this process can read the logs, and so can the group of the tasks' users. If these are in several
// groups, any user can who knows the path: tasks of one allocation may read each other's logs.
func (a Allocation) MakeShared(owners []*Owner) error {
	shared := entry{mode: 0o700}
	logs := entry{a.Logs(), 0o700, nil}
	for _, owner := range owners {
		shared.of = owners[0]
		if owner.uid() != owners[0].uid() {
			shared = entry{mode: fs.ModeSticky | 0o777}
			break
		}
	}
	for _, owner := range owners {
		switch {
		case owner == nil || owner.GID < 0:
		case logs.of == nil:
			logs.mode, logs.of = 0o750, &Owner{UID: -1, GID: owner.GID}
		case logs.of.GID != owner.GID:
			logs.mode = 0o755
		}
	}
	return makeDirs([]entry{
		{string(a), passing, nil},
		{a.Shared(), passing, nil},
		{filepath.Join(a.Shared(), "data"), shared.mode, shared.of},
		logs,
		{filepath.Join(a.Shared(), "tmp"), shared.mode, shared.of},
	})
}

// Make makes the missing directories of a task, after [Allocation.MakeShared]. owner is nil for tasks that run as the
// user of this process. Nobody else needs what it has there, but users that a task of root becomes.
func (a Allocation) Make(task string, owner *Owner) error {
	const secret = 0o700
	own := fs.FileMode(secret)
	if owner.uid() == 0 {
		own = 0o755
	}
	return makeDirs([]entry{
		{a.Task(task), own, owner},
		{filepath.Join(a.Task(task), "local"), own, owner},
		{filepath.Join(a.Task(task), "secrets"), secret, owner},
		{filepath.Join(a.Task(task), "tmp"), secret, owner},
	})
}

func makeDirs(all []entry) error {
	for _, dir := range all {
		if err := makeDir(dir.path, dir.mode, dir.of); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// makeDir makes a missing directory. It works relative to the open parent: the task that owns the parent may have
// replaced the directory with a link.
func makeDir(path string, mode fs.FileMode, owner *Owner) (err error) {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	return makeIn(parent, filepath.Base(path), mode, owner)
}

// makeIn makes a missing directory below another one.
func makeIn(parent *os.Root, name string, mode fs.FileMode, owner *Owner) error {
	if err := parent.Mkdir(name, mode.Perm()); err != nil {
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

// WriteFile writes a file within a directory that tasks can write to, by a path from there, with the directories that
// are missing. They cannot lead it elsewhere.
func WriteFile(dir, path string, text []byte, mode fs.FileMode, owner *Owner) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for i, c := range path {
		if c != filepath.Separator {
			continue
		}
		if err := makeIn(root, path[:i], 0o755, owner); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
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

// Remove removes everything of an allocation, and returns [*removal.Remains] if something cannot be removed.
func (a Allocation) Remove(ctx context.Context) error { return removal.All(ctx, string(a)) }
