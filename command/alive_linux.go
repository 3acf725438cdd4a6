// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// alive reports whether a process of a record is still there: the same PID, started at the same time, in the same
// boot. A zombie is not.
func alive(host procstats.FS, who record.Process, bootID string) bool {
	boot, err := procstats.BootID(host)
	return err == nil && boot == bootID && procstats.ProcessID{PID: who.PID, Start: who.StartTicks}.Alive(host)
}
