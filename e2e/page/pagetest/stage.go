// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package pagetest

import (
	"fmt"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// Secret is in the command lines of the processes of every final record.
const Secret = "hunter2"

// Stage returns an agent with one task of each kind: busy, near its limit after an OOM kill, waiting for its disk with
// a gap in its history, without a cgroup, idle, waiting to be started again, complete, failed, killed for its memory.
func Stage(now func() time.Time) *Agent {
	a := New(now)
	t := now()
	a.Add(busy(t), thrashing(t), gapped(t), bare(t), idle(t), waiting(t))
	a.Add(complete(t), failed(t), killed(t))
	return a
}

// Many returns an agent with n tasks that run.
func Many(now func() time.Time, n int) *Agent {
	a := New(now)
	for i := range n {
		x := busy(now())
		x.ID, x.Job, x.Index, x.Name = ID(1000+i), fmt.Sprintf("job-%02d", i/20), i%20, "worker"
		x.Cores = 0.01 * float64(1+i%70)
		a.Add(x)
	}
	return a
}

// Crowd returns an agent with n tasks as they are found: one in ten works, one in forty is in trouble, the others
// sleep.
func Crowd(now func() time.Time, n int) *Agent {
	a := New(now)
	for i := range n {
		x := idle(now())
		switch {
		case i%40 == 7:
			x = waiting(now())
		case i%40 == 9:
			x = killed(now())
		case i%10 == 0:
			x = busy(now())
		}
		x.ID, x.Job, x.Index, x.Name = ID(1000+i), fmt.Sprintf("job-%02d", i/9), i%9, "worker"
		a.Add(x)
	}
	return a
}

func event(at time.Time, kind hook.EventType, message string) allocation.Event {
	return allocation.Event{Type: kind, Time: at, Message: message}
}

// oomKill is the end of a task whose main process was killed for memory.
func oomKill(at time.Time) allocation.Event {
	e := event(at, hook.EventTerminated, "exit code 137, signal 9, OOM killed")
	e.Details = map[string]string{allocation.DetailOOMKilled: "true"}
	return e
}

func busy(t time.Time) *Actor {
	start := t.Add(-3*time.Hour - 12*time.Minute)
	return &Actor{
		ID: ID(1), Job: "shop", Group: "web", Name: "api", Started: start, Cores: 0.82, Memory: 212 * mib, Cache: 96 * mib,
		Limit: 512 * mib, Quota: 2, ReadRate: 40e3, WriteRate: 310e3, StallCPU: 0.043, StallMemory: 0, StallIO: 0.012,
		Selected: true, PSS: 190 * mib, DiskRate: 20e3, Received: 640e3,
		Processes: []string{"api", "api-worker", "api-worker", "convert", "sh"}, Output: words(60),
		Events: []allocation.Event{
			event(start.Add(-time.Second), hook.EventSetup, "building the task's directory"),
			event(start, hook.EventStarted, "started process 4711"),
		},
		Attributes: map[string]string{
			"pid": "4711", "cgroup": "/sys/fs/cgroup/tacho/shop-web-api",
			"limit.cgroup_memory_max_bytes": "512 MiB",
		},
		Commands: ended(start.Add(time.Minute)),
	}
}

func thrashing(t time.Time) *Actor {
	start := t.Add(-4*time.Minute - 20*time.Second)
	oom := start.Add(-12 * time.Second)
	x := &Actor{
		ID: ID(2), Job: "shop", Group: "cache", Name: "redis", Birth: start.Add(-2 * time.Hour), Started: start, Restarts: 2,
		Cores: 0.31, Memory: 246 * mib, Cache: 4 * mib, Limit: 256 * mib, ReadRate: 2.4e6, WriteRate: 12e3,
		StallCPU: 0.02, StallMemory: 0.21, StallIO: 0.16, OOMAt: oom, Processes: []string{"redis-server"},
		Events: []allocation.Event{
			event(start.Add(-2*time.Hour), hook.EventStarted, "started process 3900"),
			oomKill(oom),
			event(oom, hook.EventRestarting, "the policy restarts it in 10 s"),
			event(start, hook.EventStarted, "started process 4711"),
		},
		Before: &hook.Exit{Code: 137, Signal: 9, OOMKilled: true, Cause: hook.CauseTask, At: oom},
	}
	x.Record = recordOf(x, oomEvidence(oom, 256*mib, "redis-server"), record.MemoryThrashing)
	return x
}

// oomEvidence is that of an OOM kill at the task's own limit.
func oomEvidence(at time.Time, limit int64, command string) record.Evidence {
	return record.Evidence{Kills: []record.Kill{{
		At: at, Kills: 1, Scope: record.Own, Main: true, LimitBytes: &limit, PeakBytes: &limit,
		Where: "/sys/fs/cgroup/tacho/" + command,
		Victims: []record.Victim{{
			PID: 4712, Command: command, RSSBytes: new(limit - limit/13), Source: record.FromKmsg,
		}},
	}}}
}

func gapped(t time.Time) *Actor {
	start := t.Add(-52 * time.Minute)
	return &Actor{
		ID: ID(3), Job: "reports", Group: "etl", Name: "extract", Started: start, Cores: 0.44, Memory: 640 * mib,
		Cache: 900 * mib,
		Limit: 2 * gib, ReadRate: 38e6, WriteRate: 9e6, StallCPU: 0.06, StallMemory: 0.01, StallIO: 0.38,
		Selected: true, PSS: 600 * mib, DiskRate: -1,
		GapFrom: t.Add(-9 * time.Minute), GapTo: t.Add(-6*time.Minute - 30*time.Second), Gap: series.GapAgent,
		Processes: []string{"extract", "gzip", "gzip"},
		Events: []allocation.Event{
			event(start, hook.EventStarted, "started process 4711"),
			event(t.Add(-390*time.Second), hook.EventRecovered, "found again"),
		},
	}
}

func bare(t time.Time) *Actor {
	return &Actor{
		ID: ID(4), Job: "tools", Group: "sync", Name: "rsync", Started: t.Add(-7 * time.Minute), Cores: 0.12,
		Memory:   38 * mib,
		ReadRate: 1.2e6, WriteRate: 4e3, NoCgroup: true, Processes: []string{"rsync", "ssh"},
		Events: []allocation.Event{event(t.Add(-7*time.Minute), hook.EventStarted, "started process 4711")},
	}
}

func idle(t time.Time) *Actor {
	return &Actor{
		ID: ID(5), Job: "tools", Group: "cron", Name: "sleep", Started: t.Add(-9 * 24 * time.Hour), Cores: 0.0002,
		Memory: 1.1 * mib,
		Cache:  0.2 * mib, Limit: 64 * mib, Processes: []string{"sleep"},
	}
}

func waiting(t time.Time) *Actor {
	return &Actor{
		ID: ID(6), Job: "reports", Group: "etl", Index: 1, Name: "load", Started: t.Add(-time.Minute), Restarts: 4,
		Ended: &hook.Exit{Code: 1, At: t.Add(-8 * time.Second)}, RestartAt: t.Add(22 * time.Second),
		Events: []allocation.Event{
			event(t.Add(-8*time.Second), hook.EventTerminated, "exit code 1"),
			event(t.Add(-8*time.Second), hook.EventRestarting, "the policy restarts it in 30 s"),
		},
	}
}

func complete(t time.Time) *Actor {
	end := t.Add(-31 * time.Minute)
	x := &Actor{
		ID: ID(7), Job: "reports", Group: "nightly", Name: "render", Started: end.Add(-18 * time.Minute),
		Ended: &hook.Exit{At: end},
		Cores: 1.7, Memory: 330 * mib, Cache: 80 * mib, Limit: 1 * gib, ReadRate: 1e6, WriteRate: 5e6, StallCPU: 0.1,
		StallIO: 0.05,
	}
	x.Record = recordOf(x, record.Evidence{}, record.Fine)
	return x
}

func failed(t time.Time) *Actor {
	end := t.Add(-3 * time.Minute)
	x := &Actor{
		ID: ID(8), Job: "shop", Group: "migrate", Name: "schema", Started: end.Add(-4 * time.Second), Failed: true,
		Ended: &hook.Exit{Code: 2, At: end}, Cores: 0.3, Memory: 40 * mib, Limit: 128 * mib,
		Events: []allocation.Event{
			event(end, hook.EventTerminated, "exit code 2"),
			event(end, hook.EventNotRestarting, "the policy allows no more attempts"),
		},
	}
	x.Record = recordOf(x, record.Evidence{}, record.Idle)
	return x
}

// ended is what the ended processes of a busy task have used.
func ended(since time.Time) *record.Commands {
	c := &record.Commands{
		Since: since, LostRecords: 3,
		Rows: []procstats.Command{
			{
				Name: "convert", Processes: 412, Failed: 3, CPUSeconds: 96.2, RunDelaySeconds: new(4.1), PeakRSSBytes: 181 * mib,
				PeakRSSGuarantee: procstats.Exact, ReadBytes: new(int64(120 * mib)), WrittenBytes: new(int64(2 * gib)),
				Failures: []procstats.CommandFailure{{Signal: 9, Processes: 2}, {ExitCode: 1, Processes: 1}},
			},
			{Name: "sh", Processes: 415, CPUSeconds: 1.31, PeakRSSBytes: 3 * mib, PeakRSSGuarantee: procstats.UpperBound},
		},
	}
	c.CloseWith(new(9446.0))
	return c
}

func killed(t time.Time) *Actor {
	end := t.Add(-11 * time.Minute)
	x := &Actor{
		ID: ID(9), Job: "models", Group: "train", Name: "fit", Started: end.Add(-14 * time.Minute), Failed: true,
		Ended: &hook.Exit{Code: 137, Signal: 9, OOMKilled: true, At: end}, Cores: 3.2, Memory: 1000 * mib,
		Cache: 20 * mib, Limit: 1 * gib,
		ReadRate: 6e6, WriteRate: 1e5, StallCPU: 0.3, StallMemory: 0.4, StallIO: 0.2, OOMAt: end.Add(-time.Second),
		Processes: []string{"python3", "python3"},
		Events: []allocation.Event{
			event(end.Add(-14*time.Minute), hook.EventStarted, "started process 4711"),
			oomKill(end), event(end, hook.EventNotRestarting, "the policy allows no more attempts"),
		},
	}
	x.Record = recordOf(x, oomEvidence(end, 1*gib, "python3"), record.MemoryThrashing)
	x.Record.Diagnosis.Evidence["cgroup_memory_events_oom_kill_total"] = 1.0
	x.Record.Commands = &record.Commands{Rows: []procstats.Command{{
		Name: "python3", Processes: 4, Failed: 1,
		CPUSeconds: 2689, PeakRSSBytes: 948 * mib, PeakRSSGuarantee: procstats.Exact,
	}}}
	x.Record.Commands.CloseWith(x.Record.Processes.TotalCPUSeconds)
	return x
}

// recordOf is the final record of an actor.
func recordOf(x *Actor, e record.Evidence, stall record.Stall) *record.Record {
	exit, started := x.Ended, x.Started
	if exit == nil {
		exit, started = x.Before, x.Birth
	}
	end := exit.At
	s := x.sample(end)
	e.ExitCode, e.Signal, e.EndedAt = exit.Code, exit.Signal, end
	e.OOMBefore, e.OOMAfter = record.OOMCounters{Read: true}, record.OOMCounters{Read: true, Kills: int64(len(e.Kills))}
	e.After, e.Last, e.LastAge = s, x.sample(end.Add(-400*time.Millisecond)), 400*time.Millisecond
	e.LastHeadlines = procstats.Headlines(e.Last, procstats.History{Previous: x.sample(end.Add(-1400 * time.Millisecond))})
	d := record.Diagnose(e)
	d.Stall = stall
	wall := end.Sub(started).Seconds()
	measurements, missing := record.Values(s.Task)
	missing["psi_cpu_full_seconds_total"] = "the kernel is older than Linux 5.13"
	requested, effective := x.Limit, x.Limit
	code := exit.Code
	r := &record.Record{
		Version: record.Version{SchemaVersion: record.SchemaVersion}, State: record.Exited, ID: x.ID,
		Command: []string{"/usr/bin/" + x.Name, "--epochs", "40"},
		Origin:  record.Origin{Dir: "/srv/" + x.Job}, StartedAt: started, EndedAt: end, WallSeconds: &wall,
		ExitCode: &code, Diagnosis: d,
		Headline:     record.Headlines(procstats.Headlines(s, procstats.History{Elapsed: end.Sub(started)})),
		Measurements: measurements, Absent: missing, Sampling: record.Sampling{Interval: 1, Samples: int64(wall)},
		Surroundings: record.Surroundings{Limits: []record.Limit{{
			Name:      "cgroup_memory_max_bytes",
			Requested: &requested, Effective: &effective, Where: "/sys/fs/cgroup/tacho/" + x.Name,
		}}, Peak: &record.Peak{At: end.Add(-time.Second), MemoryBytes: x.Memory, Measurement: "memory_bytes"}},
	}
	if signal := exit.Signal; signal != 0 {
		r.Signal = &signal
	}
	total := x.Cores * swing(wall)
	part, exited, rest := total*0.9, total*0.0985, total*0.0015
	r.Processes = &record.Processes{
		Rows: []record.ProcessRow{
			{
				PID: 4711, PPID: 4690, Command: x.Name,
				Measurements: map[string]any{"process_cpu_seconds_total": part * 0.2, "process_rss_bytes": 30.0 * mib, "process_threads": 3.0, "process_cmdline": x.Name + " --password " + Secret},
			},
			{
				PID: 4712, PPID: 4711, Command: x.Name,
				Measurements: map[string]any{"process_cpu_seconds_total": part * 0.8, "process_rss_bytes": x.Memory * 0.9, "process_threads": 9.0, "process_cmdline": x.Name + " --password " + Secret},
			},
		},
		Exited: record.ProcessSum{Processes: 31, CPUSeconds: &exited}, UnattributedCPUSeconds: &rest, TotalCPUSeconds: &total,
	}
	return r
}
