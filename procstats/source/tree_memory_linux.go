// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// leastMemory is the memory in bytes that the task's processes hold at least: anonymous and shared memory, without the
// pages of files. What several processes map counts once: statm, which is read in every sample, does not tell it apart
// from the rest, but the last round of smaps_rollup did. Of processes that it has not read the largest counts.
//
// Processes are read one after the other, and what one of them frees another can have by then. But what each has in two
// readings of all of them, all had at one moment between the two. The earlier is that of the sample before, unless the
// task has grown since.
func (t *treeSource) leastMemory() int64 {
	page := int64(os.Getpagesize())
	var sum, held, largest int64
	for _, p := range t.members.procs {
		if p.unreadable {
			continue
		}
		if own := anonymous(p.tree.memory) * page; own > largest && t.isRead(p) {
			largest = max(largest, anonymous(p.tree.memory)*page) // which is less if it was carried
		}
		if r := &p.smaps; r.at != 0 && r.fault == "" {
			now := r.counted(p.tree.memory, page)
			sum += now
			held += min(now, r.counted(p.tree.previous, page))
		}
	}
	const small = 64 // an idle task's memory comes and goes by less than this part of it
	if held < sum-sum/small {
		held = t.memoryHeld(page)
	}
	return max(held, largest)
}

// isRead reads the memory of a process again that is carried from an earlier sample, and reports whether it is known.
func (t *treeSource) isRead(p *process) bool {
	if !p.carried {
		return true
	}
	memory, err := t.members.statm(p)
	if err != nil {
		return false
	}
	p.tree.memory, p.carried = memory, false
	return true
}

// memoryHeld reads the memory of all processes once more, and counts the less of what each has and had.
func (t *treeSource) memoryHeld(page int64) int64 {
	var held int64
	for _, p := range t.members.procs {
		r := &p.smaps
		if p.unreadable || p.dead || r.at == 0 || r.fault != "" {
			continue
		}
		before := r.counted(p.tree.memory, page)
		if before == 0 {
			continue
		}
		if again, err := t.members.statm(p); err == nil {
			held += min(before, r.counted(again, page))
		}
	}
	return held
}

// counted is what a process adds to the task's memory, in bytes, by its statm and what the last round has found of it.
func (r *smapsReading) counted(memory kernel.ProcStatm, page int64) int64 {
	// Shared memory that was given back since shows as less of what statm has with the files.
	return max(0, anonymous(memory)*page-r.others) + max(0, r.shmem-max(0, r.shared-memory.Shared*page))
}

// unchargedMemory is what the processes map of files and shared memory beyond what is charged to the task's cgroup, in
// bytes: the most of all collections. data is the part that cannot be the code of their programs.
type unchargedMemory struct {
	asked, known bool
	most, data   int64
	// charged is that in the last collection, mostCharged the most of all, looked what all processes mapped when it was
	// last seen how much is the same.
	charged, mostCharged, looked int64
	// around is what was mapped and lay around that in the files, when searched was the most.
	around, searched int64
}

// severalMap is by how much processes together must map more than the largest of them, and than is charged, to be
// worth a look at how much of that is the same. When all is more by one part of grown, the last look says too little.
const severalMap, grown = 32 << 20, 8

// mapped returns what the processes map of files and shared memory at least, and what of it cannot be code.
func (t *treeSource) mapped() (all, data int64) {
	m, page := t.members, int64(os.Getpagesize())
	var sum, text int64
	for _, p := range m.procs {
		if p.carried {
			continue // it can be less by now; the next whole reading counts it
		}
		shared := p.tree.mapped
		code := min(p.tree.memory.Text, shared)
		all, data = max(all, shared*page), max(data, (shared-code)*page)
		sum, text = sum+shared*page, text+code*page
	}
	if sum < max(all, t.uncharged.charged)+severalMap {
		return all, data
	}
	if sum > t.uncharged.looked+t.uncharged.looked/grown {
		m.smaps.due, t.uncharged.looked = 0, sum
	}
	m.refreshSmaps()
	var shares int64
	for _, p := range m.procs {
		if r := &p.smaps; r.at != 0 && r.fault == "" && r.PSSAnon > 0 && !p.carried {
			// What it began to map during the round counts with those that were read before; some may be gone since.
			began, gone := max(0, r.shared-r.early*page), max(0, r.shared-p.tree.mapped*page)
			shares += max(0, r.PSS-r.PSSAnon-began-gone)
		}
	}
	return max(all, shares), max(data, shares-text)
}

// readMappedAgain takes off what is not mapped any more: it may have gone before the charge was read.
func (t *treeSource) readMappedAgain() {
	for _, p := range t.members.procs {
		if p.carried {
			continue
		}
		again, err := t.members.statm(p)
		if p.tree.mapped = min(p.tree.mapped, again.Shared); err != nil {
			p.tree.mapped = 0
		}
	}
}

// searchAround finds what lies around the mapped pages, in the process with the most of them. What is mapped later was
// around before.
func (t *treeSource) searchAround() {
	const libraries = 4 << 20 // which everything uses
	u, m := &t.uncharged, t.members
	if u.most < libraries || u.most <= u.searched+u.searched/grown {
		return
	}
	p := slices.MaxFunc(m.procs, func(a, b *process) int {
		return cmp.Compare(a.tree.mapped, b.tree.mapped)
	})
	around, err := kernel.ReadAround(m.target.FS, p.PID, 2*kernel.ReadAhead(m.target.FS)) // one window, and the next
	if err == nil && m.verify(p) == nil {
		u.around, u.searched = u.most+around, u.most
	}
}

// putUncharged holds what is mapped against what is charged, once that was read as well.
func (t *treeSource) putUncharged(s *procstats.Sample) {
	u := &t.uncharged
	if !u.asked || t.members.absent != "" {
		return
	}
	charged, ok := s.Task.Number(procstats.CgroupMemoryFileMapped)
	if ok && t.members.target.Cgroup.Encloses() && len(t.members.procs) > 0 {
		u.known, u.charged = true, int64(charged)
		for _, p := range t.members.procs {
			p.tree.mapped = p.tree.memory.Shared
		}
		all, data := t.mapped()
		if all-u.charged > u.most || data-u.charged > u.data {
			t.readMappedAgain()
			all, data = t.mapped()
		}
		u.most, u.data = max(u.most, all-u.charged), max(u.data, data-u.charged)
		u.mostCharged = max(u.mostCharged, u.charged)
		t.searchAround()
	}
	for _, m := range [...]struct {
		id    procstats.ID
		value int64
	}{
		{procstats.TreeUncharged, u.most},
		{procstats.TreeUnchargedData, u.data},
		{procstats.TreeUnchargedAround, max(0, u.around-u.most)},
		{procstats.TreeChargedMapped, u.mostCharged},
	} {
		switch {
		case !slices.Contains(t.task, m.id):
		case !u.known:
			s.SetAbsent(m.id, "no cgroup_memory_file_mapped_bytes to compare with")
		default:
			s.SetNumber(m.id, float64(m.value))
		}
	}
}

// swap is what the last round of smaps_rollup found to be swapped out.
func (m *membership) swap() procstats.Reading {
	last := &m.smaps.last
	switch {
	case last.total == 0:
		return procstats.AbsentReading(procstats.TreeSwap, "smaps_rollup was not read: the task has a cgroup")
	case last.skipped() == last.total:
		return procstats.AbsentReading(procstats.TreeSwap, last.reason)
	}
	return procstats.NumberReading(procstats.TreeSwap, float64(last.swapPSS))
}

// lateCPU is what the total of a tree counts after its time: a sample that misses a process, or what it used, leaves
// that to the next, in which a rate would have it all.
type lateCPU struct {
	cpus   int // of the machine; 0 if it is not this one
	total  time.Duration
	found  time.Duration // of processes that this collection counts for the first time, and the one before could have
	readAt time.Duration // when the clocks were read the last time; 0 before the first
}

// find notes a process that is counted for the first time. Its start is in ticks since boot, which the clock of
// samples is behind if the machine was suspended: such a process counts as new.
func (l *lateCPU) find(p *process) {
	if l.readAt != 0 && p.identified && p.sinceBoot()+procstats.StartTick < l.readAt {
		l.found += p.tree.cpu + p.tree.children
	}
}

// count ends a collection whose clocks were read at a time, and by which the total grew.
func (l *lateCPU) count(at procstats.Stamp, grown time.Duration) {
	if l.readAt != 0 && l.cpus > 0 {
		l.total += min(grown, max(l.found, grown-time.Duration(l.cpus)*(at.Mono-l.readAt)))
	}
	l.readAt, l.found = at.Mono, 0
}
