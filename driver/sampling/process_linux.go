// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"os"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats"
)

// resetPeaks makes the memory peaks of a task's cgroup count from now on, for the descriptors that it returns.
func resetPeaks(group procstats.Cgroup) map[string]*os.File {
	return (&cgroup.Group{Cgroup: group}).ResetPeaks()
}
