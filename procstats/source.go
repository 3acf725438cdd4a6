// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"os"
	"time"
)

// Source reads one group of kernel files for one task. It is used by one goroutine at a time and starts none.
type Source interface {
	// Describe says which source it is and whether it works here.
	Describe() Description
	// Collect puts one reading of each selected measurement of the source into s, a value or a reason, and
	// stamps s.Sources. A read that fails makes its measurements absent; it never fails the sample.
	Collect(s *Sample)
	// Close gives up kept-open files.
	Close() error
}

// Description says what a source is on this machine and for this task.
type Description struct {
	ID SourceID
	// Version tells kinds of the same source apart: "v1", "v2", "hybrid", a library's version; may be empty.
	Version string
	// Available reports whether at least one measurement can be read.
	Available bool
	// Reason says in words why not, and what would enable it; empty where available.
	Reason string
}

// FS is where the kernel's files are. Everything in this package is read below these roots.
type FS struct {
	// Proc is a mounted procfs, "/proc" on a running system, a folder of captured files in tests.
	Proc string
	// Live reports that Proc is the running kernel's own, in the PID namespace of this process: only then are
	// system calls on PIDs (CPU clocks) meaningful.
	Live bool
}

// HostFS returns the running system's own roots.
func HostFS() FS { return FS{Proc: "/proc", Live: true} }

// Cgroup says where the files of one control group are, on any layout: version 2 alone, version 1 with a folder
// per controller, or both (hybrid). The zero Cgroup is no cgroup at all.
type Cgroup struct {
	// V2 is the folder in the unified hierarchy, empty where there is none.
	V2 string
	// V1 maps a controller (memory, cpu, cpuacct, pids, blkio, freezer, cpuset) to the folder in its hierarchy.
	V1 map[string]string
	// Shared reports that processes which are not the task's live in the same group, so that its totals are
	// not the task's.
	Shared bool
}

// Exists reports whether there is a cgroup on any hierarchy.
func (c Cgroup) Exists() bool { return c.V2 != "" || len(c.V1) > 0 }

// Encloses reports whether the task has a cgroup to itself: its totals are the task's, and so is every process in it.
func (c Cgroup) Encloses() bool { return c.Exists() && !c.Shared }

// Layout returns "v2", "v1", "hybrid" or "none".
func (c Cgroup) Layout() string {
	switch {
	case c.V2 != "" && len(c.V1) > 0:
		return "hybrid"
	case c.V2 != "":
		return "v2"
	case len(c.V1) > 0:
		return "v1"
	}
	return "none"
}

// Procs returns the folder whose cgroup.procs lists the task's processes: v2 first, else the first v1
// controller in a fixed order; empty where there is no cgroup.
func (c Cgroup) Procs() string {
	if c.V2 != "" {
		return c.V2
	}
	for _, controller := range []string{"freezer", "pids", "memory", "cpuacct", "cpu", "blkio", "cpuset"} {
		if dir := c.V1[controller]; dir != "" {
			return dir
		}
	}
	return ""
}

// Reaped is the resource usage of children that were waited for, summed, wait4(2).
type Reaped struct {
	// CPU is user and system time of the children and of everything they had reaped.
	CPU, User, System time.Duration
	// MaxRSS is the largest ru_maxrss, in bytes.
	MaxRSS int64
	// Minflt, Majflt, Nvcsw, Nivcsw are counts; Inblock and Oublock are in bytes.
	Minflt, Majflt, Nvcsw, Nivcsw, Inblock, Oublock int64
	// IO sums the final /proc/PID/io of reaped children where it could be read before the reap.
	IO ProcIO
	// IOMissed counts reaped children whose /proc/PID/io could not be read.
	IOMissed int64
	// Processes counts the children.
	Processes int64
}

// Target is the task that sources read.
type Target struct {
	FS     FS
	Cgroup Cgroup
	// Roots returns the live direct children of the executor that belong to the task (its main process and
	// adopted orphans). It is asked only where the cgroup lists no processes.
	Roots func() []int
	// Reaped returns what the executor has reaped so far; nil where nobody reaps.
	Reaped func() Reaped
	// Dir is the task's own folder for disk usage; empty for none.
	Dir string
	// MaxRows bounds the process rows of a sample; 0 means 1000.
	MaxRows int
	// Used reports that the group had tasks before this one: what its counters said when the sources were opened is
	// taken from them. No process of the task may run before that.
	Used bool
	// Opened are files of the v2 group, by name, that the caller has opened and that are read in place of the group's
	// own: a memory.peak that was reset counts for its own descriptor only, since Linux 6.12. The caller closes them.
	Opened map[string]*os.File
}

// ReasonNoLimit is the reason for the absence of a limit that is not set: the measurement is available, there
// is just no number.
const ReasonNoLimit = "no limit is set"
