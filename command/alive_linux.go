// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// alive reports whether a process of a record is still there: the same PID, started at the same time, in the same
// boot. A zombie is not.
func alive(host procstats.FS, who record.Process, bootID string) bool {
	boot, err := wire.BootID(host)
	if err != nil || boot != bootID {
		return false
	}
	identity, err := procstats.Identify(host, who.PID)
	return err == nil && !identity.Zombie && identity.Start == who.StartTicks
}
