// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// alive reports whether a process of a record is still there: the same PID, started at the same time, in the same
// boot. A zombie is not.
func alive(host kernel.FS, who record.Process, bootID string) bool {
	boot, err := kernel.BootID(host)
	return err == nil && boot == bootID && kernel.Alive(host, procstats.ProcessID{PID: who.PID, Start: who.StartTicks})
}
