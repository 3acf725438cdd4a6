// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package source makes samples of kernel files.
//
// A [Source] reads one group of files for one task, the [Target]; a [Collector] all sources that a selection needs,
// into a procstats.Sample; a [Cache] shares samples among readers. A file that does not exist here, or cannot be read,
// makes its measurements absent with the reason; it never fails the sample.
//
// The package starts no goroutine and reads only below the roots that a Target gives it.
package source

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Source reads one group of kernel files for one task. It is used by one goroutine at a time and starts none.
type Source interface {
	// Describe says which source it is and whether it works here.
	Describe() procstats.SourceDescription
	// Collect puts one reading of each selected measurement of the source into s, a value or a reason, and
	// stamps s.Sources. A read that fails makes its measurements absent; it never fails the sample.
	Collect(s *procstats.Sample)
	// Close closes kept-open files.
	Close() error
}

// defaultMaxRows is what a target without a bound of its own allows.
const defaultMaxRows = 1000

// reasonEnded is why a process of a sample lacks what was to be read of it last.
const reasonEnded = "the process ended while the sample was taken"

// reasonUnseen is why sums are absent where cgroup.procs has zeros in place of PIDs.
const reasonUnseen = "cgroup.procs lists processes of another PID namespace"

// selected lists the selected measurements of one source and scope, ordered by ID.
func selected(sel procstats.Selection, source procstats.SourceID, scope procstats.Scope) []procstats.ID {
	return procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == source && m.Scope == scope && sel.Has(m.ID)
	}).IDs()
}

// putAbsent makes measurements of the task absent for one reason.
func putAbsent(s *procstats.Sample, ids []procstats.ID, reason string) {
	for _, id := range ids {
		s.SetAbsent(id, reason)
	}
}

// absentSource is a source that this system does not have.
type absentSource struct {
	id     procstats.SourceID
	task   []procstats.ID
	reason string
}

func newAbsentSource(id procstats.SourceID, sel procstats.Selection, reason string) *absentSource {
	return &absentSource{id: id, task: selected(sel, id, procstats.TaskScope), reason: reason}
}

// Describe implements Source.
func (a *absentSource) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: a.id, Reason: a.reason}
}

// Collect implements Source.
func (a *absentSource) Collect(s *procstats.Sample) { putAbsent(s, a.task, a.reason) }

// Close implements Source.
func (*absentSource) Close() error { return nil }

// Target is the task that sources read.
type Target struct {
	FS     kernel.FS
	Cgroup procstats.Cgroup
	// Roots returns the live direct children of the executor that belong to the task (its main process and
	// adopted orphans). It is asked only where the cgroup lists no processes.
	Roots func() []int
	// Parent is the process whose children the direct ones of the task are, the executor; 0 if it is not known. With it
	// the processes are found that have left the cgroup.
	Parent int
	// Reaped returns what the executor has reaped so far; nil if no process is reaped.
	Reaped func() Reaped
	// Job returns the totals of the Job Object that the task runs in; nil for none.
	Job func() JobTotals
	// Seen is called for each process of the task that a library lists, with when it was created; nil for no caller.
	Seen func(pid int, created int64)
	// Dir is the task's own folder for disk usage; empty for none.
	Dir string
	// Disk bounds what measuring it costs.
	Disk DiskLimits
	// MaxRows bounds the process rows of a sample; 0 means 1000.
	MaxRows int
	// MaxKept bounds the files of processes that are kept open; 0 means 512, or a quarter of what this process may have
	// open.
	MaxKept int
	// Shared is what the sources share with those of other tasks; nil for nothing.
	Shared *Shared
	// Used reports that the group had tasks before this one: what its counters said when the sources were opened is
	// taken from them. No process of the task may run before that.
	Used bool
	// Running reports that processes of the task ran before the sources were opened: what those had used that the first
	// reading finds is taken from them, and what others had used before they joined its cgroup.
	Running bool
	// Joined is called for each process that may have run before it was in the cgroup; nil for no caller.
	Joined func(pids ...int)
	// Before is what counters of such a group said before the task, in the kernel's units, where another reader opened the
	// sources then; of any group, what the rows of the groups above began at. A counter that is not in it could not be
	// read; nil where these sources are opened before the task.
	Before map[procstats.ID]float64
	// Least is what peaks are at least: their files were reset after the task had started.
	Least map[procstats.ID]float64
	// Opened are files of the v2 group, by name, that the caller has opened and that are read in place of the group's
	// own: a memory.peak that was reset counts for its own descriptor only, since Linux 6.12. The caller closes them.
	Opened map[string]*os.File
}

// Shared is what the sources of several tasks have in common: the memory that files are read into, and files of the
// machine. Opening, collecting and closing hold its lock.
type Shared struct {
	sync.Mutex
	// Watches has the settings of cgroups, as limits, read again after a write to one, and not at every collection.
	Watches bool
	// Buffer is memory for the holder of the lock.
	Buffer []byte
	// proof is for a second file that is read while the content of the first is in use, path for the name of a file.
	proof, path []byte
	pools       *kernel.HugePools
	poolsSeen   struct { // the last look at them
		at    procstats.Stamp
		inUse bool
		err   error
	}
	files *cgroupFiles
	// fields is memory for what is parsed.
	fields []kernel.Field
	// writes are those to the tasks' cgroups; nil until the first is watched, and if none can be.
	writes *kernel.Writes
}

// cgroupFiles describes the files of cgroups, made once for all tasks of a kernel.
func (s *Shared) cgroupFiles(fs kernel.FS) *cgroupFiles {
	if s.files == nil {
		s.files = newCgroupFiles(fs)
	}
	return s.files
}

// hugePools returns the machine's pools of huge pages, opened once.
func (s *Shared) hugePools(fs kernel.FS) (*kernel.HugePools, error) {
	var err error
	if s.pools == nil {
		s.pools, err = kernel.OpenHugePools(fs)
	}
	return s.pools, err
}

// watch watches the writes to a cgroup; nil if that cannot be done here.
func (s *Shared) watch(dir string) *kernel.WrittenFolder {
	if s.writes == nil {
		var err error
		if s.writes, err = kernel.OpenWrites(); err != nil {
			return nil // the next task may have it
		}
	}
	folder, _ := s.writes.Watch(dir) // nil with an error
	return folder
}

// Close closes the machine's files. Closing nil is fine.
func (s *Shared) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.pools != nil {
		errs = append(errs, s.pools.Close())
	}
	if s.writes != nil {
		errs = append(errs, s.writes.Close())
	}
	s.pools, s.writes = nil, nil
	return errors.Join(errs...)
}

// shared returns what the sources of a target share; with no other task if the target does not say.
func (t *Target) shared() *Shared {
	if t.Shared != nil {
		return t.Shared
	}
	return &Shared{}
}

// smapsLimits bounds what reading smaps_rollup costs: the kernel walks every page table of a process for it.
type smapsLimits struct {
	// Every is the least time between two readings; 0 means a thousand times as long as the last one took, less for
	// the first three, at most 10 s. Samples in between repeat the last one, with its stamp.
	Every time.Duration
	// Budget ends a reading; what was not reached by then is skipped. One process can overrun it.
	Budget time.Duration
	// MaxRSS is the resident memory in bytes above which a process is skipped.
	MaxRSS int64
}

// pause is the time from the beginning of a reading, which took some time, to the next. The first ones follow sooner: a
// task that has just started is not what it will be.
func (l smapsLimits) pause(took time.Duration, readings int) time.Duration {
	const most = 10 * time.Second
	if l.Every > 0 {
		return l.Every
	}
	times := [...]int{20, 80, 320, 1000}
	return min(took*time.Duration(times[min(readings, len(times))-1]), most)
}

// DiskLimits bounds what the disk source costs. The zero value stands for the defaults.
type DiskLimits struct {
	// Every is the least time between the end of a walk and the start of the next; 0 means 30 s.
	Every time.Duration
	// Budget ends the part of a walk that is done in one collection; the next one continues there. 0 means 10 ms.
	Budget time.Duration
}

func (l DiskLimits) withDefaults() DiskLimits {
	return DiskLimits{Every: cmp.Or(l.Every, 30*time.Second), Budget: cmp.Or(l.Budget, 10*time.Millisecond)}
}
