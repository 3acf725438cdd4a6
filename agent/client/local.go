// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// DefaultDataDir is the default data directory of an agent.
const DefaultDataDir = "/var/lib/tacho"

// devDataDirs is the pattern of NewDevDataDir.
const devDataDirs = "tacho-dev-*"

// NewDevDataDir creates the temporary data directory of a development agent.
func NewDevDataDir() (string, error) { return os.MkdirTemp("", devDataDirs) }

// DevDataDirs returns the data directories of development agents of this user, the newest first. Other users can create
// directories of the same name: they are skipped.
func DevDataDirs() []string {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), devDataDirs)) // fails for malformed patterns only
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
