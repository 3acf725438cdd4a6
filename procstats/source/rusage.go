// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"runtime"
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
	// PeakRSS is the largest ru_maxrss that is above what the child can have inherited from this process; 0 for none.
	PeakRSS int64
	// Minflt, Majflt, Nvcsw, Nivcsw are counts; Inblock and Oublock are in bytes.
	Minflt, Majflt, Nvcsw, Nivcsw, Inblock, Oublock int64
	// IO sums the final /proc/PID/io of reaped children where it could be read before the reap.
	IO kernel.ProcIO
	// IOMissed counts reaped children whose /proc/PID/io could not be read.
	IOMissed int64
	// Outside counts the children that ended outside the task's cgroup of version 2; Watched is false if none is held
	// against one.
	Outside int64
	Watched bool
	// Processes counts the children.
	Processes int64
	// At is when another process said so; zero for a sum that is up to date whenever it is asked for.
	At procstats.Stamp
}

// rusage reports the sums of the executor's wait4(2) calls. Nothing is read: the kernel returned it at each reap.
type rusage struct {
	reaped func() Reaped
	ids    []procstats.ID
}

const reasonNotReaped = "no process of the task was reaped yet"

// openRusage returns the source of the resource usage of reaped children.
func openRusage(t Target, sel procstats.Selection) Source {
	return &rusage{reaped: t.Reaped, ids: selected(sel, procstats.SourceRusage, procstats.TaskScope)}
}

// reapedLacks says why wait4(2) does not give a measurement here; empty if it does.
func reapedLacks(id procstats.ID) string {
	switch {
	case runtime.GOOS == "linux":
	case runtime.GOOS == "windows":
		return "needs Unix: see portable_cpu_seconds_total, which has the total of a Job Object"
	case id == procstats.RusageInblock, id == procstats.RusageOublock:
		return "this system counts operations, not bytes"
	case id == procstats.RusageOutside:
		return "needs Linux: this system has no cgroups"
	}
	return ""
}

// Describe implements Source.
func (r *rusage) Describe() procstats.SourceDescription {
	if r.reaped == nil {
		return procstats.SourceDescription{ID: procstats.SourceRusage, Reason: "no executor reaps the task's processes here"}
	}
	return procstats.SourceDescription{ID: procstats.SourceRusage, Available: true}
}

// Collect implements Source.
func (r *rusage) Collect(s *procstats.Sample) {
	if r.reaped == nil {
		putAbsent(s, r.ids, r.Describe().Reason)
		return
	}
	now, sum := kernel.Now(), r.reaped()
	if !sum.At.Zero() {
		now = sum.At
	}
	s.SetRead(procstats.SourceRusage, now)
	if sum.Processes == 0 {
		for _, id := range r.ids {
			s.SetAbsent(id, cmp.Or(reapedLacks(id), reasonNotReaped))
		}
		return
	}
	values := [...]float64{ // in the order of the table
		sum.CPU.Seconds(), float64(sum.MaxRSS), float64(sum.Minflt), float64(sum.Majflt),
		float64(sum.Nvcsw), float64(sum.Nivcsw), float64(sum.Inblock), float64(sum.Oublock),
	}
	for _, id := range r.ids {
		switch lacks := reapedLacks(id); {
		case lacks != "":
			s.SetAbsent(id, lacks)
		case id == procstats.RusageOutside && !sum.Watched:
			s.SetAbsent(id, "no cgroup of version 2 to hold the ended processes against")
		case id == procstats.RusageOutside:
			s.SetNumber(id, float64(sum.Outside))
		case id != procstats.RusagePeakRSS:
			s.SetNumber(id, values[id-procstats.RusageCPU])
		case sum.PeakRSS == 0:
			s.SetAbsent(id, "no reaped process had more resident memory than the executor, whose value a child inherits")
		default:
			s.SetNumber(id, float64(sum.PeakRSS))
		}
	}
}

// Close implements Source.
func (r *rusage) Close() error { return nil }
