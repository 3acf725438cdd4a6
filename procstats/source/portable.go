// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// portableProcess is a process as a library lists it.
type portableProcess struct {
	pid, parent int
	created     int64 // milliseconds since 1970
	// usage reads the process; an error that is gone says that it has ended since it was listed.
	usage func() (portableUsage, error)
}

type portableUsage struct {
	cpu     time.Duration
	rss     int64
	command string
}

// JobTotals is what Windows counts of all processes that ever ran in a Job Object; 0 where it does not count.
type JobTotals struct {
	CPU time.Duration
	// CommittedPeak is in bytes.
	CommittedPeak int64
}

// portableSource reads a task's processes through a library, where there is no reader of our own.
type portableSource struct {
	target  Target
	list    func() ([]portableProcess, error) // every process there is
	task    []procstats.ID
	process []procstats.ID
	now     func() procstats.Stamp

	members map[int]*portableMember
	exited  time.Duration
	total   time.Duration // the most that portable_cpu_seconds_total has said
}

type portableMember struct {
	procstats.ProcessID
	portableProcess
	portableUsage
	before time.Duration
	fault  string
	round  bool // seen in the listing that is being worked on
}

func newPortable(
	t Target, sel procstats.Selection, list func() ([]portableProcess, error),
) *portableSource {
	return &portableSource{
		target: t, list: list, now: kernel.Now, members: make(map[int]*portableMember),
		task:    selected(sel, procstats.SourcePortable, procstats.TaskScope),
		process: selected(sel, procstats.SourcePortable, procstats.ProcessScope),
	}
}

// Describe implements Source.
func (o *portableSource) Describe() procstats.SourceDescription {
	d := procstats.SourceDescription{ID: procstats.SourcePortable, Version: "gopsutil v4", Available: true}
	if o.target.Roots == nil {
		d.Available, d.Reason = false, reasonNoRoots
	}
	return d
}

const (
	reasonNoRoots = "no first process of the task is known"
	reasonNoJob   = "no Job Object counts it here"
)

// Collect implements Source.
func (o *portableSource) Collect(s *procstats.Sample) {
	if o.target.Roots == nil {
		putAbsent(s, o.task, reasonNoRoots)
		return
	}
	var reaped time.Duration
	var job JobTotals
	if o.target.Reaped != nil {
		reaped = o.target.Reaped().CPU
	}
	if o.target.Job != nil {
		job = o.target.Job()
	}
	all, err := o.list()
	if err != nil {
		putAbsent(s, o.task, err.Error())
		return
	}
	o.refresh(all)
	s.SetRead(procstats.SourcePortable, o.now())
	for _, p := range o.members {
		if o.target.Seen != nil {
			o.target.Seen(p.pid, p.created)
		}
		o.read(p)
	}
	o.putTask(s, reaped, job)
	o.putProcesses(s)
}

// refresh finds the members in a listing: the target's roots, what was a member before and still is the same
// process, and all their descendants.
func (o *portableSource) refresh(all []portableProcess) {
	for _, p := range o.members {
		p.round = false
	}
	children := make(map[int][]portableProcess, len(all))
	byPID := make(map[int]portableProcess, len(all))
	for _, p := range all {
		byPID[p.pid] = p
		children[p.parent] = append(children[p.parent], p)
	}
	queue := o.target.Roots()
	for pid, p := range o.members {
		if byPID[pid].created == p.created {
			queue = append(queue, pid)
		}
	}
	now := o.now()
	for len(queue) > 0 {
		p, listed := byPID[queue[0]]
		queue = queue[1:]
		if !listed || !o.admit(p, now) {
			continue
		}
		for _, child := range children[p.pid] {
			queue = append(queue, child.pid)
		}
	}
	for pid, p := range o.members {
		if !p.round {
			o.exited += p.cpu
			delete(o.members, pid)
		}
	}
}

// admit marks a process as a member and reports whether that is news in this listing.
func (o *portableSource) admit(p portableProcess, now procstats.Stamp) (news bool) {
	member := o.members[p.pid]
	if member != nil && member.created != p.created {
		o.exited += member.cpu
		member = nil
	}
	if member == nil {
		// On the clock of Stamp.Mono, as elsewhere; what is older than that clock's zero began at 0.
		age := now.Wall.Sub(time.UnixMilli(p.created))
		member = &portableMember{
			ProcessID:       procstats.ProcessID{PID: p.pid, Start: uint64(max(0, now.Mono-age) / procstats.StartTick)},
			portableProcess: p,
		}
		o.members[p.pid] = member
	}
	news = !member.round
	member.round = true
	return news
}

func (o *portableSource) read(p *portableMember) {
	usage, err := p.usage()
	switch {
	case err == nil:
	case kernel.Gone(err):
		o.exited += p.cpu
		delete(o.members, p.pid)
		return
	default:
		p.fault = err.Error()
		return
	}
	p.before, p.fault = p.cpu, ""
	usage.cpu = max(usage.cpu, p.cpu)
	p.portableUsage = usage
}

func (o *portableSource) putTask(s *procstats.Sample, reaped time.Duration, job JobTotals) {
	var live time.Duration
	var rss int64
	var failed int
	var reason string
	for _, p := range o.members {
		live += p.cpu
		rss += p.rss
		if p.fault != "" {
			failed++
			reason = p.fault
		}
	}
	if failed > 0 {
		reason = procstats.WithCounts("processes cannot be read: "+reason, fmt.Sprintf("%d of %d", failed, len(o.members)))
	} else {
		// Reaped children have their descendants' time where these were waited for, last readings have the others'.
		o.total = max(o.total, reaped+live, o.exited+live, job.CPU)
	}
	for _, id := range o.task {
		switch {
		case id == procstats.PortableProcesses:
			s.SetNumber(id, float64(len(o.members)))
		case id == procstats.PortableCommittedPeak && job.CommittedPeak > 0:
			s.SetNumber(id, float64(job.CommittedPeak))
		case id == procstats.PortableCommittedPeak:
			s.SetAbsent(id, reasonNoJob)
		case failed > 0:
			s.SetAbsent(id, reason)
		case id == procstats.PortableCPU:
			s.SetNumber(id, o.total.Seconds())
		case id == procstats.PortableRSS:
			s.SetNumber(id, float64(rss))
		}
	}
}

func (o *portableSource) putProcesses(s *procstats.Sample) {
	if len(o.process) == 0 {
		return
	}
	shown := slices.Collect(maps.Values(o.members))
	if limit := cmp.Or(max(o.target.MaxRows, 0), defaultMaxRows); len(shown) > limit {
		slices.SortFunc(shown, func(a, b *portableMember) int {
			return cmp.Or(cmp.Compare(b.cpu-b.before, a.cpu-a.before), cmp.Compare(b.rss, a.rss), cmp.Compare(a.pid, b.pid))
		})
		s.Omitted = len(shown) - limit
		shown = shown[:limit]
	}
	slices.SortFunc(shown, func(a, b *portableMember) int { return cmp.Compare(a.pid, b.pid) })
	for _, p := range shown {
		row := s.AddProcess(p.ProcessID)
		row.PPID, row.Command = p.parent, p.command
		for _, id := range o.process {
			switch {
			case p.fault != "":
				row.Readings.Put(procstats.AbsentReading(id, p.fault))
			case id == procstats.PortableProcessCPU:
				row.Readings.Put(procstats.NumberReading(id, p.cpu.Seconds()))
			case id == procstats.PortableProcessRSS:
				row.Readings.Put(procstats.NumberReading(id, float64(p.rss)))
			}
		}
	}
}

// Identify returns the identity of a process. Where there is no /proc, Start is in milliseconds since 1970.
func Identify(fs kernel.FS, pid int) (procstats.ProcessID, error) {
	if runtime.GOOS == "linux" {
		now, err := kernel.Identify(fs, pid)
		return now.ProcessID, err
	}
	started, err := startOf(pid)
	return procstats.ProcessID{PID: pid, Start: started}, err
}

// Close implements Source.
func (*portableSource) Close() error { return nil }
