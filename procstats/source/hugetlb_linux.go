// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// hugetlbSource reads how many huge pages the task holds. While the machine's pools are not in use, as on most machines
// they never are, one task of all that share them looks at these once a second, and nothing else is read.
type hugetlbSource struct {
	fs     kernel.FS
	cgroup procstats.Cgroup
	task   []procstats.ID
	shared *Shared
	pools  *kernel.HugePools
	absent string // why nothing can be read

	openMembers func() *membership
	members     *membership // nil until the processes are read

	inUse bool
	stamp procstats.Stamp

	opened bool
	files  []*cgroupFile // of the task's cgroup, one for each size
	// charged reports that memory.current counts huge pages.
	charged bool
}

// hugePoolsEvery is the time between two looks at the machine's pools while they are not in use.
const hugePoolsEvery = time.Second

// openHugetlb returns the source of the huge pages that the task holds: from the hugetlb files of its cgroup, and if
// it has none from its processes, which the other sources that read them share.
func openHugetlb(t Target, sel procstats.Selection, members func() *membership) *hugetlbSource {
	h := &hugetlbSource{
		fs: t.FS, cgroup: t.Cgroup, task: selected(sel, procstats.SourceHugetlb, procstats.TaskScope),
		shared: t.shared(), openMembers: members,
	}
	var err error
	if h.pools, err = h.shared.hugePools(t.FS); err != nil {
		h.absent = err.Error()
	}
	return h
}

// Describe implements Source.
func (h *hugetlbSource) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: procstats.SourceHugetlb, Available: h.absent == "", Reason: h.absent}
}

// Collect implements Source.
func (h *hugetlbSource) Collect(s *procstats.Sample) {
	if h.pools != nil {
		h.look(s)
	}
	if h.absent != "" {
		putAbsent(s, h.task, h.absent)
		return
	}
	s.SetRead(procstats.SourceHugetlb, h.stamp)
	counted := procstats.AbsentReading(procstats.HugetlbCgroupCurrent, "no process of this machine holds huge pages")
	mapped := procstats.NumberReading(procstats.HugetlbMapped, 0)
	if h.inUse {
		if counted = h.count(); counted.Present() {
			mapped = procstats.AbsentReading(procstats.HugetlbMapped, "the cgroup counts them: hugetlb_cgroup_current_bytes")
		} else {
			mapped = h.mapped(s)
		}
	}
	for _, r := range [...]procstats.Reading{counted, mapped, h.uncharged(counted, mapped)} {
		if slices.Contains(h.task, r.ID()) {
			s.Task.Put(r)
		}
	}
}

// look finds out whether any process of the machine holds huge pages.
func (h *hugetlbSource) look(s *procstats.Sample) {
	seen := &h.shared.poolsSeen
	if seen.at.Zero() || seen.inUse || s.Mono-seen.at.Mono >= hugePoolsEvery {
		seen.at = s.Stamp
		seen.inUse, seen.err = h.pools.InUse()
	}
	h.stamp, h.inUse, h.absent = seen.at, seen.inUse, ""
	if seen.err != nil {
		h.absent = seen.err.Error()
	}
	if h.inUse && !h.opened {
		h.opened = true
		h.openFiles()
	}
}

// openFiles opens the files of the task's cgroup, without those of reservations, when huge pages are in use first.
func (h *hugetlbSource) openFiles() {
	c := h.cgroup
	if !c.Encloses() {
		return
	}
	// Then memory.* counts the huge pages of hugetlbfs.
	h.charged = c.V1["memory"] == "" && kernel.HasCgroupOption(h.fs, c.V2, "memory_hugetlb_accounting")
	for _, pattern := range []string{
		filepath.Join(c.V2, "hugetlb.*.current"), filepath.Join(c.V1["hugetlb"], "hugetlb.*.usage_in_bytes"),
	} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			dir, name := filepath.Split(path)
			if dir == "" || strings.Contains(name, ".rsvd.") {
				continue // there is no cgroup in that hierarchy
			}
			spec := number("hugetlb", name, procstats.HugetlbCgroupCurrent).parsedBy(kernel.ParseSingleValue)
			h.files = append(h.files, openAlone(dir, &spec, procstats.HugetlbCgroupCurrent))
		}
	}
}

// count adds up what the cgroup's files say of all sizes.
func (h *hugetlbSource) count() procstats.Reading {
	if len(h.files) == 0 {
		const reason = "hugetlb controller not available in the task's cgroup"
		return procstats.AbsentReading(procstats.HugetlbCgroupCurrent, reason)
	}
	var sum float64
	for _, f := range h.files {
		f.collect(h.shared)
		r := f.reading(0)
		value, ok := r.Number()
		if !ok {
			return r
		}
		sum += value
	}
	return procstats.NumberReading(procstats.HugetlbCgroupCurrent, sum)
}

// mapped is what the processes map at least.
func (h *hugetlbSource) mapped(s *procstats.Sample) procstats.Reading {
	if h.members == nil {
		h.members = h.openMembers()
		h.members.use(kernel.FileStatm, kernel.FileTask, kernel.FileChildren)
	}
	m := h.members
	if m.refresh(s); m.absent != "" {
		return procstats.AbsentReading(procstats.HugetlbMapped, m.absent)
	}
	m.refreshSmaps()
	h.stamp = m.smaps.last.stamp
	s.SetRead(procstats.SourceHugetlb, h.stamp)
	if last := &m.smaps.last; last.total > 0 && last.skipped() == last.total {
		return procstats.AbsentReading(procstats.HugetlbMapped, last.reason)
	}
	return procstats.NumberReading(procstats.HugetlbMapped, float64(m.smaps.last.hugetlb))
}

// uncharged is what memory.current does not have of them.
func (h *hugetlbSource) uncharged(counted, mapped procstats.Reading) procstats.Reading {
	held := mapped
	if counted.Present() {
		held = counted
	}
	value, ok := held.Number()
	switch {
	case h.charged:
		return procstats.NumberReading(procstats.HugetlbUncharged, 0)
	case !ok:
		return procstats.AbsentReading(procstats.HugetlbUncharged, held.Reason())
	}
	return procstats.NumberReading(procstats.HugetlbUncharged, value)
}

// Close implements Source.
func (h *hugetlbSource) Close() error {
	var errs []error
	if h.members != nil {
		errs = append(errs, h.members.leave())
		h.members = nil
	}
	for _, f := range h.files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}
