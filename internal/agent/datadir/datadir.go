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
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/paths"
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
