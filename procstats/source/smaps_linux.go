// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// smapsSource reads /proc/PID/smaps_rollup on its own slow clock.
type smapsSource struct {
	processSource
	limits SmapsLimits
	now    func() procstats.Stamp

	// last is the reading that is repeated until the next.
	last smapsSums
	next int // the PID at which the next reading begins, so that the budget does not always end before the same
}

// smapsSums is one reading of all processes.
type smapsSums struct {
	stamp                             procstats.Stamp
	pss, swapPSS                      int64
	large, late, denied, other, total int
	reason                            string // why the sums are absent; empty where they are whole
}

// skipped counts the processes that were left out.
func (r *smapsSums) skipped() int { return r.large + r.late + r.denied + r.other }

// smapsReading is what the last reading found of a process.
type smapsReading struct {
	kernel.SmapsRollup
	at    time.Duration // Stamp.Mono of the reading: not that of the source's last where the process is newer
	fault string
}

const (
	smapsLate  = "over the time budget of the last reading"
	smapsLarge = "larger than smaps_rollup is read for"
	smapsNewer = "not there yet at the last reading"
)

// OpenSmaps returns the source of the smaps_ measurements and of process_pss_bytes. m is shared with the other
// sources that read processes; nil makes one for this source alone.
func OpenSmaps(t Target, sel procstats.Selection, m *Members, limits SmapsLimits) Source {
	return &smapsSource{
		processSource: newProcessSource(procstats.SourceSmaps, t, sel, m, kernel.FileStatm, kernel.FileTask, kernel.FileChildren),
		limits:        limits.withDefaults(),
		now:           kernel.Now,
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
	now := q.now()
	// What was read of no process, before the task started, is not worth repeating.
	if q.last.total == 0 || now.Mono-q.last.stamp.Mono >= q.limits.Every {
		q.read(now)
		q.members.sweepDead()
	}
	s.Sources[procstats.SourceSmaps] = q.last.stamp
	q.putTask(s)
	q.putRows(s, func(p *process) [2]int64 { return [2]int64{p.smaps.PSS, 0} }, q.rowReading)
}

// read goes once over all processes, beginning where the budget ended the last time.
func (q *smapsSource) read(began procstats.Stamp) {
	procs := q.members.procs
	r := smapsSums{stamp: began}
	first := 0
	for first < len(procs) && procs[first].PID < q.next {
		first++
	}
	late := false
	for i := range procs {
		p := procs[(first+i)%len(procs)]
		if !late && i > 0 && q.now().Mono-began.Mono >= q.limits.Budget {
			late, q.next = true, p.PID
		}
		p.smaps = smapsReading{at: began.Mono}
		if late {
			p.smaps.fault = smapsLate
			r.late++
		} else {
			q.readProcess(p, &r)
		}
		if !p.dead {
			r.total++
		}
	}
	if !late {
		q.next = 0
	}
	r.other += q.members.unseen
	r.total += q.members.unseen
	r.explain(q.limits)
	q.last = r
}

// readProcess adds one process to the sums or counts it as skipped.
func (q *smapsSource) readProcess(p *process, r *smapsSums) {
	if !p.identified {
		p.smaps.fault = p.fault
		r.denied++
		return
	}
	data, err := q.members.read(p, kernel.FileStatm)
	var memory kernel.ProcStatm
	if err == nil {
		memory, err = kernel.ParseProcStatm(data)
	}
	switch {
	case err != nil:
	case memory.Size == 0:
		// A zombie has given its memory back; there is nothing left to open.
		return
	case memory.Resident*int64(os.Getpagesize()) > q.limits.MaxRSS:
		p.smaps.fault = smapsLarge
		r.large++
		return
	default:
		data, err = q.members.read(p, kernel.FileSmapsRollup)
	}
	if err == nil {
		p.smaps.SmapsRollup, err = kernel.ParseSmapsRollup(data)
	}
	switch {
	case err == nil:
		r.pss += p.smaps.PSS
		r.swapPSS += p.smaps.SwapPSS
		return
	case p.dead:
		return
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		r.denied++
	case errors.Is(err, unix.ESRCH):
		// It has become a zombie since statm was read.
		return
	default:
		r.other++
	}
	p.smaps.fault = faultReason(p.PID, kernel.FileSmapsRollup, err)
}

// explain words why the sums are absent: partial ones are never shown as whole.
func (r *smapsSums) explain(limits SmapsLimits) {
	if r.skipped() == 0 {
		return
	}
	var parts []string
	add := func(n int, why string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	add(r.large, "larger than "+procstats.Bytes.Text(float64(limits.MaxRSS)))
	add(r.late, fmt.Sprintf("over the time budget of %v", limits.Budget.Round(time.Microsecond)))
	add(r.denied, "not permitted (needs CAP_SYS_PTRACE)")
	add(r.other, "not readable")
	r.reason = fmt.Sprintf("%d of %d processes were skipped: %s", r.skipped(), r.total, strings.Join(parts, ", "))
}

func (q *smapsSource) putTask(s *procstats.Sample) {
	for _, id := range q.task {
		switch {
		case id == procstats.SmapsSkipped:
			s.SetNumber(id, float64(q.last.skipped()))
		case q.last.reason != "":
			s.SetAbsent(id, q.last.reason)
		case id == procstats.SmapsPSS:
			s.SetNumber(id, float64(q.last.pss))
		case id == procstats.SmapsSwapPSS:
			s.SetNumber(id, float64(q.last.swapPSS))
		}
	}
}

func (q *smapsSource) rowReading(id procstats.ID, p *process) procstats.Reading {
	switch {
	case !p.identified:
		return procstats.AbsentReading(id, p.fault)
	case p.smaps.at != q.last.stamp.Mono:
		return procstats.AbsentReading(id, smapsNewer)
	case p.smaps.fault != "":
		return procstats.AbsentReading(id, p.smaps.fault)
	}
	return procstats.NumberReading(id, float64(p.smaps.PSS))
}
