// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"

	"github.com/tachograph/tacho/procstats"
)

// ErrBusy says that exits may be had here later.
var ErrBusy = errors.New("too many processes count exits")

// Summary is what has ended in a cgroup.
type Summary struct {
	// Commands have the most CPU time first.
	Commands []procstats.Command
	// Lost counts records of threads that there was no room for.
	Lost int64
	// Left counts the processes that began in the cgroup and did not end there, as far as that is known. Only [Watch.Finish] says.
	Left int64
}
