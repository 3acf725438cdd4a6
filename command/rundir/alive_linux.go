// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// alive reports whether a process of a record still exists: same PID, start time and boot. A zombie does not count.
func alive(host kernel.FS, p record.Process, bootID string) bool {
	boot, err := kernel.BootID(host)
	return err == nil && boot == bootID && kernel.Alive(host, procstats.ProcessID{PID: p.PID, Start: p.StartTicks})
}
