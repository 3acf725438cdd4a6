// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/tachograph/tacho/executor/client"
)

// Executors of an agent are in its data folder, or below a runtime folder.
const (
	inData = "run"
	below  = "agent-"
)

// longestRuntime is how long the path of the folder may be in which executors have theirs: a socket's path has
// 107 bytes, unix(7), and its folder's name and its own need some.
const longestRuntime = 45

// runtimeDir is where this agent's executors are and nobody else's: what is in there and unknown to the agent is
// killed. It is within the data folder, or, where that would be too long or the operator chose a folder, below that
// or the user's own under a name made of the data folder's: `tacho run` and other agents may have theirs beside it.
func runtimeDir(chosen, dataDir string) string {
	dir := filepath.Join(dataDir, inData)
	if chosen == "" && len(dir) <= longestRuntime {
		return dir
	}
	sum := sha256.Sum256([]byte(dataDir))
	return filepath.Join(cmp.Or(chosen, client.DefaultRuntimeDir()), below+hex.EncodeToString(sum[:4]))
}

// RuntimeDirs returns the folders in which executors of agents may be: in their data folders, and those below a
// runtime folder.
func RuntimeDirs(runtimeDir string, dataDirs ...string) []string {
	dirs, _ := filepath.Glob(filepath.Join(runtimeDir, below+"*")) // fails for malformed patterns only
	for _, dataDir := range dataDirs {
		dirs = append(dirs, filepath.Join(dataDir, inData))
	}
	return dirs
}
