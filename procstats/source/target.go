// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"os"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Reaped is the resource usage of children that were waited for, summed, wait4(2).
type Reaped struct {
	// CPU is user and system time of the children and of everything they had reaped.
	CPU, User, System time.Duration
	// MaxRSS is the largest ru_maxrss, in bytes.
	MaxRSS int64
	// Minflt, Majflt, Nvcsw, Nivcsw are counts; Inblock and Oublock are in bytes.
	Minflt, Majflt, Nvcsw, Nivcsw, Inblock, Oublock int64
	// IO sums the final /proc/PID/io of reaped children where it could be read before the reap.
	IO kernel.ProcIO
	// IOMissed counts reaped children whose /proc/PID/io could not be read.
	IOMissed int64
	// Processes counts the children.
	Processes int64
}

// Target is the task that sources read.
type Target struct {
	FS     kernel.FS
	Cgroup procstats.Cgroup
	// Roots returns the live direct children of the executor that belong to the task (its main process and
	// adopted orphans). It is asked only where the cgroup lists no processes.
	Roots func() []int
	// Reaped returns what the executor has reaped so far; nil if no process is reaped.
	Reaped func() Reaped
	// Dir is the task's own folder for disk usage; empty for none.
	Dir string
	// Disk bounds what measuring it costs.
	Disk DiskLimits
	// MaxRows bounds the process rows of a sample; 0 means 1000.
	MaxRows int
	// Used reports that the group had tasks before this one: what its counters said when the sources were opened is
	// taken from them. No process of the task may run before that.
	Used bool
	// Opened are files of the v2 group, by name, that the caller has opened and that are read in place of the group's
	// own: a memory.peak that was reset counts for its own descriptor only, since Linux 6.12. The caller closes them.
	Opened map[string]*os.File
}
