// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package pagetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// Actor is a task in an allocation of its own.
type Actor struct {
	ID, Job, Group, Name string
	Index                int
	// Started is when its present or last start was, Birth when its history begins, if that is earlier.
	Started, Birth time.Time
	// Ended is how it ended; nil while it runs.
	Ended *hook.Exit
	// Before is how the start before the present one ended; nil for none.
	Before *hook.Exit
	// Failed says that it was given up.
	Failed bool
	// RestartAt is when a task that waits is started again.
	RestartAt time.Time
	Restarts  int
	// Cores, ReadRate and so on are means over time; what is negative is not measured.
	Cores, ReadRate, WriteRate     float64
	StallCPU, StallMemory, StallIO float64
	Memory, Cache, Limit, Quota    float64
	// Selected says that PSS and DiskRate are measured, which is how fast its directory grows: negative is a reason
	// why not.
	Selected      bool
	PSS, DiskRate float64
	// Received is how many bytes a second it receives; it sends a tenth. Without it packets are not counted.
	Received float64
	// NoCgroup is a task without one: memory is that of its processes.
	NoCgroup bool
	// GapFrom and GapTo are a time without readings.
	GapFrom, GapTo time.Time
	Gap            series.Gap
	// OOMAt is when a process of it was killed.
	OOMAt     time.Time
	Processes []string
	Events    []allocation.Event
	Record    *record.Record
	Commands  *record.Commands
	// Output is what it wrote to stdout, for WriteLogs.
	Output string
	// Attributes are the driver's.
	Attributes map[string]string
}

// wave goes up and down between 0 and 2, with a mean of 1.
func wave(t, period float64) float64 { return 1 + math.Sin(2*math.Pi*t/period) }

// swing is the integral of a rate of 1 that swings by a part of itself in three periods.
func swing(t float64) float64 {
	total := t
	for _, p := range [...]struct{ part, period float64 }{{0.35, 300}, {0.25, 47}, {0.15, 11}} {
		w := 2 * math.Pi / p.period
		total += p.part / w * (1 - math.Cos(w*t))
	}
	return total
}

// begun is where the counters of the start at a moment begin.
func (x *Actor) begun(at time.Time) (start time.Time, run int) {
	if !x.Birth.IsZero() && at.Before(x.Started) {
		return x.Birth, x.Restarts
	}
	return x.Started, x.Restarts + 1
}

// epoch is when the machine was started.
func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// sample is what a reading at a moment would have had.
func (x *Actor) sample(at time.Time) *procstats.Sample {
	start, _ := x.begun(at)
	t := at.Sub(start).Seconds()
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at.Sub(epoch()), Wall: at}}
	for source := procstats.SourceNone; source.Known(); source++ {
		s.SetRead(source, s.Stamp)
	}
	cpu := x.Cores * swing(t)
	if x.NoCgroup {
		x.withoutCgroup(s, cpu, t)
	} else {
		x.withCgroup(s, cpu, t, at)
	}
	if x.Received > 0 {
		s.SetNumber(procstats.SkbReceived, math.Floor(x.Received*swing(t)))
		s.SetNumber(procstats.SkbSent, math.Floor(x.Received/10*swing(t+15)))
	}
	x.rows(s, cpu)
	if x.Selected {
		x.selected(s, t)
	}
	return s
}

// selected is what is not among the default measurements.
func (x *Actor) selected(s *procstats.Sample, t float64) {
	s.SetNumber(procstats.SmapsPSS, x.PSS*(0.9+0.05*wave(t, 400)))
	if x.DiskRate < 0 {
		s.SetAbsent(procstats.DiskUsage, "open: permission denied")
		s.SetAbsent(procstats.DiskFiles, "open: permission denied")
		return
	}
	s.SetNumber(procstats.DiskUsage, x.DiskRate*t)
	s.SetNumber(procstats.DiskFiles, math.Floor(t/60))
}

func (x *Actor) withCgroup(s *procstats.Sample, cpu, t float64, at time.Time) {
	memory := x.Memory * (0.9 + 0.05*wave(t, 400) + 0.01*wave(t, 23))
	cache := x.Cache * (0.8 + 0.1*wave(t, 170))
	s.SetNumber(procstats.CgroupCPUUsage, cpu)
	s.SetNumber(procstats.CgroupCPUUser, cpu*0.8)
	s.SetNumber(procstats.CgroupCPUSystem, cpu*0.2)
	if x.Quota > 0 {
		s.SetNumber(procstats.CgroupCPUQuota, x.Quota)
		s.SetNumber(procstats.CgroupCPUThrottled, 0.02*cpu)
	} else {
		s.SetAbsent(procstats.CgroupCPUQuota, procstats.ReasonNoLimit)
	}
	s.SetNumber(procstats.CgroupMemoryCurrent, memory+cache)
	s.SetNumber(procstats.CgroupMemoryPeak, x.Memory*1.02+x.Cache)
	s.SetNumber(procstats.CgroupMemoryActiveFile, cache*0.4)
	s.SetNumber(procstats.CgroupMemoryInactiveFile, cache*0.5)
	s.SetNumber(procstats.CgroupMemorySlabReclaimable, cache*0.1)
	if x.Limit > 0 {
		s.SetNumber(procstats.CgroupMemoryMax, x.Limit)
	} else {
		s.SetAbsent(procstats.CgroupMemoryMax, procstats.ReasonNoLimit)
	}
	kills := 0.0
	if !x.OOMAt.IsZero() && !at.Before(x.OOMAt) {
		kills = 1
	}
	s.SetNumber(procstats.CgroupMemoryEventsOOMKill, kills)
	number(s, procstats.CgroupIORead, x.ReadRate*swing(t))
	number(s, procstats.CgroupIOWrite, x.WriteRate*swing(t+20))
	number(s, procstats.PSICPUSome, x.StallCPU*swing(t))
	number(s, procstats.PSIMemorySome, x.StallMemory*swing(t+5))
	number(s, procstats.PSIMemoryFull, x.StallMemory*0.3*swing(t+5))
	number(s, procstats.PSIIOSome, x.StallIO*swing(t+10))
}

func (x *Actor) withoutCgroup(s *procstats.Sample, cpu, t float64) {
	for _, id := range []procstats.ID{procstats.CgroupCPUUsage, procstats.CgroupMemoryCurrent, procstats.PSICPUSome} {
		s.SetAbsent(id, "the task has no cgroup of its own")
	}
	s.SetNumber(procstats.TreeCPU, cpu)
	s.SetNumber(procstats.TreeRSS, x.Memory*(0.9+0.05*wave(t, 400)))
	s.SetNumber(procstats.TreeMemory, x.Memory*(0.9+0.05*wave(t, 400)))
	number(s, procstats.TreeIORead, x.ReadRate*swing(t))
	number(s, procstats.TreeIOWrite, x.WriteRate*swing(t+20))
}

// rows shares the CPU time among the processes, so that the sum closes.
func (x *Actor) rows(s *procstats.Sample, cpu float64) {
	if len(x.Processes) == 0 {
		return
	}
	left, pid := cpu, 4711
	exited, rest := 0.06*cpu, 0.0015*cpu
	left -= exited + rest
	for i, command := range x.Processes {
		part := left * 0.6
		if i == len(x.Processes)-1 {
			part = left
		}
		left -= part
		parent := 4711
		switch {
		case i == 0:
			parent = 4690
		case i > 2:
			parent = pid - 1
		}
		p := s.AddProcess(procstats.ProcessID{PID: pid, Start: uint64(1000 + i)})
		p.PPID, p.Command = parent, command
		p.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, part))
		p.Readings.Put(procstats.NumberReading(procstats.ProcessRSS, x.Memory*0.5/float64(i+1)))
		p.Readings.Put(procstats.TextReading(procstats.ProcessState, []string{"S", "R", "S", "D"}[i%4]))
		p.Readings.Put(procstats.NumberReading(procstats.ProcessThreads, float64(1+3*(i%3))))
		p.Readings.Put(procstats.TextReading(procstats.ProcessCmdline, fmt.Sprintf("/usr/bin/%s --rank %d", command, i)))
		pid++
	}
	s.SetNumber(procstats.TreeCPUExited, exited)
	s.SetNumber(procstats.TreeCPUUnattributed, rest)
	s.SetNumber(procstats.TreeCPUAtRows, cpu)
	s.SetNumber(procstats.TreeProcessesExited, 214)
}

func (x *Actor) running() bool { return x.Ended == nil && x.RestartAt.IsZero() }

func (x *Actor) usage(now time.Time) *figures.Figures {
	if !x.running() {
		return &figures.Figures{Reason: "the task does not run"}
	}
	s := x.sample(now.Truncate(time.Second))
	var largest procstats.Largest
	largest.Put(procstats.NumberReading(procstats.TreeMemory, x.Memory))
	return &figures.Figures{
		Running: true, Sample: s, Interval: time.Second,
		Headlines: procstats.Headlines(s, procstats.History{
			Previous: x.sample(now.Truncate(time.Second).Add(-time.Second)), Elapsed: now.Sub(x.Started),
			Largest: largest,
		}),
	}
}

func (x *Actor) points(q series.Query, now time.Time) []series.Point {
	step := max(time.Second, q.Step)
	from := x.Started
	if !x.Birth.IsZero() {
		from = x.Birth
	}
	until := now
	if x.Ended != nil {
		until = x.Ended.At
	}
	if q.Since.After(from) {
		from = q.Since
	}
	var points []series.Point
	gapped := false
	for at := from.Truncate(time.Second).Add(time.Second); !at.After(until); at = at.Add(time.Second) {
		start, run := x.begun(at)
		switch {
		case at.Before(start):
			continue
		case at.After(x.GapFrom) && at.Before(x.GapTo):
			if !gapped {
				points = append(points, series.Point{Stamp: procstats.Stamp{Mono: at.Sub(epoch()), Wall: at}, Run: run, Gap: x.Gap})
				gapped = true
			}
			continue
		}
		if len(q.Highest) == 0 && x.sameStep(at, until, step) {
			continue // the next one would replace it
		}
		s := x.sample(at)
		p := series.Point{Stamp: s.Stamp, Run: run, Values: map[procstats.ID]float64{}, Kept: map[series.Column]float64{}}
		for _, r := range s.Task {
			if v, ok := r.Number(); ok {
				p.Values[r.ID()] = v
			}
		}
		for _, h := range procstats.Headlines(s, procstats.History{}) {
			if v, ok := h.Reading.Number(); ok && slices.Contains(q.Highest, h.ID) {
				p.Kept[series.Column{ID: h.ID, Keep: procstats.Max}] = v
			}
		}
		if n := len(points); n > 0 && points[n-1].Gap == series.NoGap && points[n-1].Run == run &&
			points[n-1].Wall.Truncate(step).Equal(at.Truncate(step)) {
			for c, v := range points[n-1].Kept {
				p.Kept[c] = max(p.Kept[c], v)
			}
			points = points[:n-1] // of each step the last
		}
		points = append(points, p)
	}
	return points
}

// sameStep reports whether the reading a second later is of the same step and start.
func (x *Actor) sameStep(at, until time.Time, step time.Duration) bool {
	next := at.Add(time.Second)
	_, run := x.begun(at)
	_, then := x.begun(next)
	return run == then && next.Truncate(step).Equal(at.Truncate(step)) && !next.After(until) &&
		(!next.After(x.GapFrom) || !next.Before(x.GapTo))
}

func (x *Actor) allocation(now time.Time) *allocation.Allocation {
	state := hook.State{
		Phase: hook.PhaseRunning, StartedAt: x.Started, Restarts: x.Restarts, Failed: x.Failed,
		Exit: cmp.Or(x.Ended, x.Before),
	}
	status := allocation.Running
	switch {
	case !x.RestartAt.IsZero():
		state.Phase, state.RestartAt, status = hook.PhasePending, x.RestartAt, allocation.Pending
	case x.Ended != nil:
		state.Phase, state.FinishedAt, status = hook.PhaseDead, x.Ended.At, allocation.Complete
		if x.Failed {
			status = allocation.Failed
		}
	}
	var outcome record.Outcome
	if x.Record != nil {
		outcome = x.Record.End().Outcome
	}
	return &allocation.Allocation{
		ID: x.ID, Namespace: "default", JobID: x.Job, JobType: job.TypeService, Group: x.Group, Index: x.Index,
		Name:   x.Job + "." + x.Group,
		NodeID: "7c7f5b1e-0000-4000-8000-000000000001", NodeName: "node-1", ClientStatus: status,
		DesiredStatus: allocation.DesiredRun, Description: "Tasks are " + string(status),
		CreateTime: x.created(), ModifyTime: now,
		Tasks: map[string]*allocation.Task{x.Name: {
			Name: x.Name, Driver: "tacho", Resources: job.Resources{CPU: 500, MemoryMB: int(max(x.Limit, 256*mib)) / mib},
			RunID: x.ID + "-run", State: state, Events: x.Events, Attributes: x.Attributes,
			Outcome: outcome,
		}},
	}
}

func (x *Actor) created() time.Time {
	if !x.Birth.IsZero() {
		return x.Birth
	}
	return x.Started
}
