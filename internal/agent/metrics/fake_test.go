// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

var epoch = time.Date(2026, 8, 12, 10, 0, 0, 0, time.UTC)

// fakeAgent has tasks that a test can change.
type fakeAgent struct {
	telemetry config.Telemetry
	allocs    []*allocation.Allocation
	usages    map[string]*figures.Figures
	noNode    bool
}

func newFake() *fakeAgent {
	f := &fakeAgent{telemetry: config.Default().Telemetry, usages: map[string]*figures.Figures{}}
	f.add("aaaaaaaa", 1)
	f.add("bbbbbbbb", 10)
	ended := f.add("cccccccc", 100)
	end(ended, true)
	u := f.usages["cccccccc"]
	kills, _ := u.Sample.Task.Number(procstats.CgroupMemoryEventsOOMKill)
	u.Running, u.Counted, u.Totals.OOMKills = false, true, new(int64(kills))
	u.Totals.Counters = map[procstats.ID]float64{procstats.CgroupMemoryEventsOOMKill: kills}
	return f
}

// end has the task of an allocation end.
func end(a *allocation.Allocation, oom bool) {
	a.ClientStatus = allocation.Failed
	a.Tasks["web"].Ends++
	a.Tasks["web"].Outcome = "signaled"
	if oom {
		a.Tasks["web"].Outcome = record.OOMKilled
	}
	state := &a.Tasks["web"].State
	state.Phase, state.Failed, state.Exit = hook.PhaseDead, true, &hook.Exit{Code: 137, Signal: 9, OOMKilled: oom}
}

func (f *fakeAgent) add(id string, scale float64) *allocation.Allocation {
	a := &allocation.Allocation{
		ID: id, Namespace: "default", JobID: "example", JobType: "service", Group: "cache", ClientStatus: allocation.Running,
		CreateTime: epoch, Tasks: map[string]*allocation.Task{"web": {
			Name: "web", Driver: "tacho", Resources: job.Resources{CPU: 500, MemoryMB: 256}, RunID: id + "-1",
			State: hook.State{Phase: hook.PhaseRunning, Restarts: 1, StartedAt: epoch}, Starts: 2, Ends: 1, EndsByHost: 1,
		}},
	}
	f.allocs = append(f.allocs, a)
	f.usages[id] = usage(scale)
	return a
}

// usage is a reading one second old in which every measurement of the task has a value.
func usage(scale float64) *figures.Figures {
	at := procstats.Stamp{Mono: 1000 * time.Second, Wall: epoch.Add(-time.Second)}
	s, before := &procstats.Sample{Stamp: at}, &procstats.Sample{}
	for _, m := range procstats.Table() {
		switch {
		case m.Scope != procstats.TaskScope:
		case m.ID == procstats.CgroupMemoryMax:
			s.SetAbsent(m.ID, procstats.ReasonNoLimit)
		default:
			s.SetNumber(m.ID, scale*float64(m.ID))
			s.SetRead(m.Source, at)
		}
	}
	// Nothing contradicts the cgroup.
	for _, id := range []procstats.ID{
		procstats.TreeCPU, procstats.RusageCPU, procstats.TreeCPULive, procstats.TreeCPUExited, procstats.TreeOutsideCPU,
		procstats.TreeLeftCPU, procstats.TreeLeftMemory, procstats.TreeLeftIO, procstats.TreeLeftPressure,
	} {
		s.SetNumber(id, 0)
	}
	*before = *s.Clone()
	for i := range before.Sources {
		before.Sources[i].Mono -= time.Second
	}
	before.SetNumber(procstats.CgroupCPUUsage, scale/2)
	return &figures.Figures{
		Running: true, Sample: s, Before: before, Interval: time.Second, Backlogged: 2,
		Headlines: procstats.Headlines(s, procstats.History{Previous: before, Elapsed: time.Minute}),
	}
}

func (f *fakeAgent) Snapshot(...string) *snapshot.Agent {
	now := &snapshot.Agent{
		Config: config.Default(), Allocations: f.allocs, Usages: map[*allocation.Task]*figures.Figures{},
		Node: node.Node{
			ID: "n1", Name: "node1", Datacenter: "dc1", Attributes: map[string]string{"unique.hostname": "host1"},
			Resources: node.Resources{CoreMHz: 2500},
		},
	}
	now.Config.Telemetry = f.telemetry
	for _, a := range f.allocs {
		for _, t := range a.Tasks {
			u := *f.usages[a.ID]
			now.Usages[t] = &u
		}
	}
	return now
}

func (f *fakeAgent) Cost() snapshot.Cost {
	return snapshot.Cost{
		CPUSeconds: 1.5, RSSBytes: 20 << 20, Goroutines: 12, Uptime: time.Hour, Samples: 100, Backlogged: 3,
		Errors: map[string]int64{"stats": 2, `a "quoted\" word` + "\n": 1},
	}
}

func (f *fakeAgent) NodeStats(context.Context) (*node.Stats, error) {
	if f.noNode {
		return nil, errors.New("no /proc")
	}
	return &node.Stats{
		Uptime: time.Hour, Memory: node.Memory{Total: 8, Available: 6, Used: 2, Free: 1},
		CPU:     []node.CPU{{Name: "cpu0", User: 10, System: 5, Idle: 85, TotalPercent: 15}, {Name: "cpu1", Idle: 100}},
		Disks:   []node.Disk{{Device: "/dev/sda1", Mountpoint: "/", Size: 100, Used: 40, Available: 60}},
		Reasons: map[string]string{},
	}, nil
}

func newTestCollector(f *fakeAgent) *Collector {
	room := streams.New(streams.DefaultLimits())
	room.Connections = streams.NewConnections(1)
	c := New(f, room)
	c.now = func() time.Time { return epoch }
	c.began = epoch.Add(-time.Hour)
	return c
}
