// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// DefaultDataDir is the data folder of an agent that is not told another.
const DefaultDataDir = "/var/lib/tacho"

// devDataDirs matches the data folders that NewDevDataDir makes.
const devDataDirs = "tacho-dev-*"

// NewDevDataDir makes the data folder of a development agent, which is temporary.
func NewDevDataDir() (string, error) { return os.MkdirTemp("", devDataDirs) }

// DevDataDirs returns the data folders of development agents of this user, the youngest first. Anybody can make a folder
// of that name, so it must be the user's own.
func DevDataDirs() []string {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), devDataDirs)) // fails for malformed patterns only
	made := map[string]time.Time{}
	folders = slices.DeleteFunc(folders, func(path string) bool {
		folder, err := os.Lstat(path)
		if err != nil || !folder.IsDir() || !isOurs(folder) {
			return true
		}
		made[path] = folder.ModTime()
		return false
	})
	slices.SortFunc(folders, func(a, b string) int { return made[b].Compare(made[a]) })
	return folders
}
