// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// alive reports whether a process of a record still exists: same PID, start time and boot. A zombie does not count. Of one in another PID
// namespace, such as that of a container that shares the directory, nothing can be known: it may exist.
func alive(host kernel.FS, p record.Process, bootID string) bool {
	boot, err := kernel.BootID(host)
	if err != nil || boot != bootID {
		return false
	}
	here := kernel.PIDNamespace(host)
	elsewhere := p.PIDNamespace != "" && here != "" && p.PIDNamespace != here
	return elsewhere || kernel.Alive(host, procstats.ProcessID{PID: p.PID, Start: p.StartTicks})
}
