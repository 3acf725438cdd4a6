// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
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
// machine. Whoever opens, collects or closes them holds its lock.
type Shared struct {
	sync.Mutex
	// Watches has the settings of cgroups, as limits, read again after a write to one, and not at every collection.
	Watches bool
	// Buffer is memory for whoever holds the lock.
	Buffer []byte
	// proof is for a second file that is read while the content of the first is in use.
	proof []byte
	pools *kernel.HugePools
	files *cgroupFiles
	// fields is memory for what is parsed.
	fields []kernel.Field
	// writes are those to the tasks' cgroups; nil until the first is watched, and if none can be.
	writes *kernel.Writes
}

// cgroupFiles describes the files of cgroups, made once for all tasks of a kernel.
func (s *Shared) cgroupFiles(t Target) *cgroupFiles {
	recursive := false
	if dir := t.Cgroup.V1["blkio"]; dir != "" {
		_, err := os.Lstat(filepath.Join(dir, "blkio.throttle.io_service_bytes_recursive"))
		recursive = err == nil
	}
	if s.files == nil || s.files.recursive != recursive {
		s.files = newCgroupFiles(t.FS, recursive)
	}
	return s.files
}

// hugePools returns the machine's pools of huge pages, opened once.
func (s *Shared) hugePools(fs kernel.FS) (*kernel.HugePools, error) {
	if s.pools != nil {
		return s.pools, nil
	}
	var err error
	s.pools, err = kernel.OpenHugePools(fs)
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
	folder, err := s.writes.Watch(dir)
	if err != nil {
		return nil
	}
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
