// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// smapsSource is the source of what smaps_rollup has for people; membership reads it.
type smapsSource struct{ processSource }

// openSmaps returns the source of the smaps_ measurements and of process_pss_bytes. m is shared with the other
// sources that read processes; nil makes one for this source alone.
func openSmaps(t Target, sel procstats.Selection, m *membership) Source {
	return &smapsSource{
		newProcessSource(procstats.SourceSmaps, t, sel, m, kernel.FileStatm, kernel.FileTask, kernel.FileChildren),
	}
}

// Describe implements Source.
func (q *smapsSource) Describe() procstats.SourceDescription {
	return q.members.describe(procstats.SourceSmaps, "smaps_rollup", "Linux 4.14 and CONFIG_PROC_PAGE_MONITOR")
}

// Collect implements Source.
func (q *smapsSource) Collect(s *procstats.Sample) {
	if !q.refresh(s) {
		return
	}
	q.members.refreshSmaps()
	s.SetRead(procstats.SourceSmaps, q.members.smaps.last.stamp)
	q.putTask(s)
	q.putRows(s, func(p *process) [2]int64 { return [2]int64{p.smaps.PSS, 0} }, q.rowReading)
}

func (q *smapsSource) putTask(s *procstats.Sample) {
	last := &q.members.smaps.last
	for _, id := range q.task {
		switch {
		case id == procstats.SmapsSkipped:
			s.SetNumber(id, float64(last.skipped()))
		case last.reason != "":
			s.SetAbsent(id, last.reason)
		case id == procstats.SmapsPSS:
			s.SetNumber(id, float64(last.pss))
		case id == procstats.SmapsSwapPSS:
			s.SetNumber(id, float64(last.swapPSS))
		}
	}
}

func (q *smapsSource) rowReading(id procstats.ID, p *process) procstats.Reading {
	switch {
	case !p.identified:
		return procstats.AbsentReading(id, p.fault.reason)
	case p.smaps.at != q.members.smaps.last.stamp.Mono:
		return procstats.AbsentReading(id, smapsNewer)
	case p.smaps.fault != "":
		return procstats.AbsentReading(id, p.smaps.fault)
	}
	return procstats.NumberReading(id, float64(p.smaps.PSS))
}

// smapsRounds reads /proc/PID/smaps_rollup of all members on a slow clock of its own, for all sources that want it.
type smapsRounds struct {
	limits smapsLimits
	now    func() procstats.Stamp

	// last is the round that is repeated until the next.
	last     smapsSums
	due      time.Duration // Stamp.Mono from which on the next one may begin
	readings int           // that found a process
	next     int           // the PID at which it begins, so that the budget does not always end before the same
	read     []*process    // those that the last round has read
}

// smapsSums is one reading of all processes.
type smapsSums struct {
	stamp                             procstats.Stamp
	pss, swapPSS                      int64
	hugetlb                           int64 // at least this many bytes of huge pages are mapped
	large, late, denied, other, total int
	reason                            string // why the sums are absent; empty where they are whole
}

// skipped counts the processes that were left out.
func (r *smapsSums) skipped() int { return r.large + r.late + r.denied + r.other }

// smapsReading is what the last round found of a process.
type smapsReading struct {
	kernel.SmapsRollup
	at    time.Duration // Stamp.Mono of the round: not that of the last where the process is newer
	fault string
	// shares reports that the process used the address space of its parent before it was read, as after vfork(2), or that
	// the kernel does not say.
	shares bool
	// others are the bytes of its anonymous memory that are not the process's alone, as far as they are counted with
	// other processes. shmem is its part of shared memory, and shared what statm said of that and of mapped files.
	others, shmem, shared int64
	// early is what statm had of both in pages, before any process was read.
	early int64
}

const (
	smapsLate  = "over the time budget of the last reading"
	smapsLarge = "larger than smaps_rollup is read for"
	smapsNewer = "not there yet at the last reading"
)

// refreshSmaps begins a new round where one is due, and otherwise leaves everything as the last one found it.
func (m *membership) refreshSmaps() {
	q := &m.smaps
	began := q.now()
	// What was read of no process, before the task started, is not worth repeating.
	if q.last.total > 0 && began.Mono < q.due {
		return
	}
	m.readSmaps(began)
	if q.last.total > 0 {
		q.readings++
	}
	q.due = began.Mono + q.limits.pause(q.now().Mono-began.Mono, max(q.readings, 1))
	m.sweepDead()
}

// readSmaps goes once over all processes, beginning where the budget ended the last time.
func (m *membership) readSmaps(began procstats.Stamp) {
	q := &m.smaps
	r := smapsSums{stamp: began}
	q.read = q.read[:0]
	for _, p := range m.procs {
		p.smaps = smapsReading{at: began.Mono}
		if !p.identified {
			continue
		}
		if early, err := m.statm(p); err == nil {
			p.smaps.early = early.Shared
		}
	}
	first := 0
	for first < len(m.procs) && m.procs[first].PID < q.next {
		first++
	}
	late := false
	for i := range m.procs {
		p := m.procs[(first+i)%len(m.procs)]
		if !late && i > 0 && q.now().Mono-began.Mono >= q.limits.Budget {
			late, q.next = true, p.PID
		}
		if late {
			p.smaps.fault = smapsLate
			r.late++
		} else {
			m.readProcessSmaps(p, &r)
		}
		if !p.dead {
			r.total++
		}
	}
	if !late {
		q.next = 0
	}
	r.other += m.unseen
	r.total += m.unseen
	r.explain(q.limits)
	m.sumSmaps(&r)
	q.last = r
}

// readProcessSmaps reads one process or counts it as skipped.
func (m *membership) readProcessSmaps(p *process, r *smapsSums) {
	if !p.identified {
		p.smaps.fault = p.fault.reason
		r.denied++
		return
	}
	page := int64(os.Getpagesize())
	// A child of vfork(2) can execute a program between any two reads: what was read first must not count with the rest.
	parent := m.byPID[p.ppid]
	p.smaps.shares = parent != nil && m.target.FS.Live && kernel.CompareMemory(p.PID, parent.PID) == 0
	before, err := m.statm(p)
	switch {
	case err != nil:
	case before.Size == 0:
		// A zombie has given its memory back; there is nothing left to open.
		p.tree.memory = before
		return
	case before.Resident*page > m.smaps.limits.MaxRSS:
		p.smaps.fault = smapsLarge
		r.large++
		return
	default:
		err = m.readRollup(p, before, page)
	}
	switch {
	case err == nil:
		m.smaps.read = append(m.smaps.read, p)
	case p.dead:
	case errors.Is(err, unix.ESRCH):
		// It has become a zombie since statm was read.
		p.tree.memory = kernel.ProcStatm{}
	default:
		p.smaps.fault = faultReason(p.PID, kernel.FileSmapsRollup, err)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			r.denied++
		} else {
			r.other++
		}
	}
}

// readRollup reads smaps_rollup of a process, and statm once more.
func (m *membership) readRollup(p *process, before kernel.ProcStatm, page int64) error {
	data, err := m.readThreads(p, kernel.FileSmapsRollup)
	if err == nil {
		p.smaps.SmapsRollup, err = kernel.ParseSmapsRollup(data)
	}
	if err != nil {
		return err
	}
	after, err := m.statm(p)
	if err != nil {
		return err
	}
	p.smaps.compare(before, after, page)
	// What it began to share during the round counts whole with those that were read before.
	p.smaps.shmem = max(0, p.smaps.shmem-max(0, p.smaps.shared-p.smaps.early*page))
	p.tree.memory = after
	return nil
}

// compare finds out how much of what statm counts is counted with other processes. Memory that came or went between the
// reads must not make it less: it is compared with the larger statm.
func (r *smapsReading) compare(before, after kernel.ProcStatm, page int64) {
	anon := max(anonymous(before), anonymous(after)) * page
	r.shared = max(before.Shared, after.Shared) * page
	r.others = max(0, anon-r.PSSAnon)
	r.shmem = min(r.PSSShmem, r.shared)
}

// anonymous is the resident memory in pages that no file and no shared memory backs.
func anonymous(memory kernel.ProcStatm) int64 { return max(0, memory.Resident-memory.Shared) }

// sumSmaps adds up what was read. Of processes that use one address space (vfork) only the first counts.
func (m *membership) sumSmaps(r *smapsSums) {
	read := slices.DeleteFunc(m.smaps.read, m.readWithParent)
	slices.SortFunc(read, m.compareMemory)
	var sharedHugetlb int64
	for i, p := range read {
		s := &p.smaps
		if i > 0 && m.compareMemory(read[i-1], p) == 0 {
			s.countElsewhere()
			continue
		}
		r.pss += s.PSS
		r.swapPSS += s.SwapPSS
		r.hugetlb += s.PrivateHugetlb
		sharedHugetlb = max(sharedHugetlb, s.SharedHugetlb)
	}
	r.hugetlb += sharedHugetlb
}

// readWithParent reports whether what was read of a process was read of its parent as well.
func (m *membership) readWithParent(p *process) bool {
	s, parent := &p.smaps, m.byPID[p.ppid]
	if !s.shares || parent == nil {
		return false
	}
	if of := &parent.smaps; of.at != s.at || of.First != s.First || of.End != s.End {
		return false
	}
	s.countElsewhere()
	return true
}

// countElsewhere says that nothing of the process is its own.
func (r *smapsReading) countElsewhere() { r.others, r.shmem = math.MaxInt64, 0 }

// compareMemory orders processes by their address space and returns 0 where they use the same. Those with the same
// addresses, which forks of one program have too, are left to the kernel; where it does not say they use the same: too
// little is counted then, and never too much.
func (m *membership) compareMemory(a, b *process) int {
	order := cmp.Or(cmp.Compare(a.smaps.First, b.smaps.First), cmp.Compare(a.smaps.End, b.smaps.End))
	if order != 0 {
		return order
	}
	if !m.target.FS.Live {
		return cmp.Compare(a.PID, b.PID)
	}
	return kernel.CompareMemory(a.PID, b.PID)
}

// explain words why the sums are absent: partial ones are never shown as whole.
func (r *smapsSums) explain(limits smapsLimits) {
	if r.skipped() == 0 {
		return
	}
	var parts []string
	add := func(n int, why string) {
		if n > 0 {
			parts = append(parts, why)
		}
	}
	add(r.large, "larger than "+procstats.Bytes.Text(float64(limits.MaxRSS)))
	add(r.late, fmt.Sprintf("over the time budget of %v", limits.Budget.Round(time.Microsecond)))
	add(r.denied, "not permitted (needs CAP_SYS_PTRACE)")
	add(r.other, "not readable")
	r.reason = procstats.WithCounts("processes were skipped: "+strings.Join(parts, ", "),
		fmt.Sprintf("%d of %d", r.skipped(), r.total))
}
