// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/agent/datadir"
)

// runtimeDir is where this agent's executors are and nobody else's: what is in there and unknown to the agent is
// killed. It is within the data directory, or, if that would be too long or the operator chose a directory, below that
// or the user's own under a name made of the data directory's: `tacho run` and other agents may have theirs beside it.
func runtimeDir(chosen, dataDir string) (string, error) {
	dir, longest := datadir.Executors(dataDir), driver.LongestRuntimeDir()
	if chosen == "" && len(dir) <= longest {
		return dir, nil
	}
	name := datadir.SharedName(dataDir)
	if longest -= len("/" + name); len(chosen) > longest {
		return "", fmt.Errorf("runtime_dir %q has %d bytes; at most %d, because the path of a socket in the agent's own directory below it can have 107, unix(7)",
			chosen, len(chosen), longest)
	}
	return filepath.Join(cmp.Or(chosen, client.DefaultRuntimeDir()), name), nil
}

// socketDir is the directory for the sockets of plugins; empty for the system's own if the paths of sockets in it would be too long.
func socketDir(dataDir string) string {
	dir := datadir.Plugins(dataDir)
	if len(dir)+len("/plugin1234567890") > maxSocketPath || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}

// maxSocketPath is the longest path of a socket, unix(7).
const maxSocketPath = 107
