// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package exits counts what processes used that have ended, however short they lived: the kernel writes its final
// account of every thread that ends in a watched cgroup, and a [Watch] adds them up by command.
//
// BPF programs of some dozens of instructions do that, since Linux 5.8, on the raw tracepoints sched_switch and
// sched_process_exec; those on sched_process_fork and sched_process_exit count what has left the cgroup, and which
// records are outstanding. They are assembled here for the running kernel, whose own description of its types says
// where the fields are. They need CAP_BPF and CAP_PERFMON.
package exits

import (
	"errors"
	"time"

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
	// Left counts the processes that began in the cgroup and did not end there, as far as that is known. Only
	// [Watch.Finish] says.
	Left int64
	// LastEnd is when the last process ended, CLOCK_MONOTONIC: 0 if it may be one without a record. Only [Watch.Finish]
	// says.
	LastEnd time.Duration
}
