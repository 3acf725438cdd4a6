// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats"
)

// openFiles is how many files this process may have open.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30)) //nolint:gosec // bounded
}

// resetPeaks makes the memory peaks of a task's cgroup count from now on, for the descriptors that it returns.
func resetPeaks(group procstats.Cgroup) map[string]*os.File {
	return (&cgroup.Group{Cgroup: group}).ResetPeaks()
}
