// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// processSource is what the sources that read every process have in common.
type processSource struct {
	members *membership
	task    []procstats.ID
	process []procstats.ID
	closed  bool
}

// newProcessSource makes one that reads some files. m is shared with the other sources that read processes; nil makes
// one for this source alone.
func newProcessSource(
	id procstats.SourceID, t Target, sel procstats.Selection, m *membership, files ...kernel.ProcessFile,
) processSource {
	if m == nil {
		m = newMembership(t)
	}
	m.use(files...)
	return processSource{
		members: m, task: selected(sel, id, procstats.TaskScope), process: selected(sel, id, procstats.ProcessScope),
	}
}

// refresh brings the membership up to date. If that is not known, everything is absent, and it reports false.
func (o *processSource) refresh(s *procstats.Sample) bool {
	if o.members.refresh(s); o.members.absent != "" {
		putAbsent(s, o.task, o.members.absent)
		return false
	}
	return true
}

// putRows puts what was read of each process into its row. rank says which have rows if there are more than fit.
func (o *processSource) putRows(
	s *procstats.Sample, rank func(*process) [2]int64, reading func(procstats.ID, *process) procstats.Reading,
) {
	if len(o.process) == 0 {
		return
	}
	for _, p := range o.members.procs {
		p.rank = rank(p)
	}
	o.members.addRows(s)
	next := 0
	for i := range s.Processes {
		row := &s.Processes[i]
		var p *process
		p, next = o.members.of(row, next)
		for _, id := range o.process {
			r := procstats.AbsentReading(id, reasonEnded)
			if p != nil {
				r = reading(id, p)
			}
			row.Readings.Put(r)
		}
	}
}

// Close implements Source.
func (o *processSource) Close() error {
	if o.closed {
		return nil
	}
	o.closed = true
	return o.members.leave()
}

// count returns how many live processes the task has, readable or not.
func (m *membership) count() int { return len(m.procs) + m.unseen }

// addRows makes a row for every live process, or for the highest in rank where there are more than the target
// allows, ordered by PID. Only the first source of a sample that has rows makes them.
func (m *membership) addRows(s *procstats.Sample) {
	if len(s.Processes) > 0 {
		return
	}
	limit := cmp.Or(max(m.target.MaxRows, 0), defaultMaxRows)
	shown := m.procs
	if len(shown) > limit {
		m.order = append(m.order[:0], m.procs...)
		slices.SortFunc(m.order, func(a, b *process) int {
			return cmp.Or(slices.Compare(b.rank[:], a.rank[:]), byPID(a, b))
		})
		shown = m.order[:limit]
		slices.SortFunc(shown, byPID)
		s.Omitted = len(m.procs) - limit
	}
	for _, p := range shown {
		row := s.AddProcess(p.ProcessID)
		row.PPID, row.Command = p.ppid, p.command
	}
}

// of returns the process of a row, nil where it has ended since the row was made. Rows and processes are both ordered
// by PID: from is the index of the process to look at first, and next that for the next row.
func (m *membership) of(row *procstats.ProcessRow, from int) (p *process, next int) {
	for from < len(m.procs) && m.procs[from].PID < row.PID {
		from++
	}
	if from < len(m.procs) && m.procs[from].ProcessID == row.ProcessID && !m.procs[from].dead {
		return m.procs[from], from + 1
	}
	return nil, from
}

// describe says for a source whether processes can be read at all. own is a file that has to be there for it, below
// /proc/self, with what would enable it; empty for none.
func (m *membership) describe(id procstats.SourceID, own, enable string) procstats.SourceDescription {
	d := procstats.SourceDescription{ID: id, Version: "children"}
	if m.cgroup != nil {
		d.Version = "cgroup.procs"
	}
	_, err := os.Stat(m.target.FS.Proc)
	switch {
	case err != nil:
		d.Reason = err.Error() + ": needs procfs"
	case m.cgroup == nil && m.target.Roots == nil:
		d.Reason = m.unknown(nil)
	case own != "" && m.target.FS.Live:
		if _, err := os.Stat(filepath.Join(m.target.FS.Proc, "self", own)); err != nil {
			d.Reason = err.Error() + ": needs " + enable
		}
	}
	d.Available = d.Reason == ""
	return d
}
