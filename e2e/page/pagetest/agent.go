// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package pagetest has an agent that runs nothing, for tests of the page: its tasks are functions of time.
package pagetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// Agent is a stage with tasks on it. Its methods may be called concurrently.
type Agent struct {
	now func() time.Time

	mu      sync.Mutex // guards following
	shown   *snapshot.Agent
	shownAt time.Time
	actors  []*Actor
	off     string
	history int
	dir     datadir.Allocation
	done    []string
}

// RestartAlloc notes that it was called.
func (a *Agent) RestartAlloc(id, task string) error { return a.note("restart " + id + " " + task) }

// ReplaceAlloc notes that it was called.
func (a *Agent) ReplaceAlloc(id string) error { return a.note("stop " + id) }

// StopJob notes that it was called.
func (a *Agent) StopJob(id string, _ bool, _ *uint64) error {
	return a.note("stop job " + id)
}

func (a *Agent) note(what string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = append(a.done, what)
	return nil
}

// Done is what was asked of the agent since the last call.
func (a *Agent) Done() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	done := a.done
	a.done = nil
	return done
}

// New returns an agent without tasks.
func New(now func() time.Time) *Agent { return &Agent{now: now} }

// Add puts tasks on the stage.
func (a *Agent) Add(actors ...*Actor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.actors, a.shown = append(a.actors, actors...), nil
}

// SetPublishing turns reading on, with an empty reason, or off.
func (a *Agent) SetPublishing(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off, a.shown = reason, nil
}

// HistoryReads counts how often a history was asked for.
func (a *Agent) HistoryReads() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.history
}

// Snapshot returns one allocation for each actor.
func (a *Agent) Snapshot(only ...string) *snapshot.Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if len(only) == 0 && a.shown != nil && a.shownAt.Equal(now) {
		return a.shown
	}
	s := &snapshot.Agent{NotPublishing: a.off, Node: a.node(), Usages: map[*allocation.Task]*figures.Figures{}}
	for _, x := range a.actors {
		if len(only) > 0 && !slices.Contains(only, x.ID) {
			continue
		}
		l := x.allocation(now)
		l.Dir = a.dir
		s.Allocations = append(s.Allocations, l)
		usage := x.usage(now)
		if a.off != "" {
			usage = &figures.Figures{Running: x.Ended == nil, Reason: a.off}
		}
		s.Usages[l.Tasks[x.Name]] = usage
	}
	if len(only) == 0 {
		a.shown, a.shownAt = s, now
	}
	return s
}

func (a *Agent) actor(prefix string) (*Actor, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make([]string, 0, len(a.actors))
	for _, x := range a.actors {
		ids = append(ids, x.ID)
	}
	id, err := allocation.Find(ids, prefix)
	if err != nil {
		return nil, err
	}
	return a.actors[slices.Index(ids, id)], nil
}

// History returns a reading a second, or one a step.
func (a *Agent) History(id, _ string, q series.Query) ([]series.Point, error) {
	a.mu.Lock()
	a.history++
	a.mu.Unlock()
	x, err := a.actor(id)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	off := a.off != ""
	a.mu.Unlock()
	if off {
		return nil, nil
	}
	return x.points(q, a.now()), nil
}

// Record returns the record of an actor that has one.
func (a *Agent) Record(id, _ string) (*record.Record, error) {
	x, err := a.actor(id)
	if err != nil {
		return nil, err
	}
	if x.Record == nil {
		return nil, fmt.Errorf("record of %s: %w", id, allocation.ErrNotFound)
	}
	return x.Record, nil
}

// Commands returns the commands of an actor that has some.
func (a *Agent) Commands(id, _ string) (*record.Commands, error) {
	x, err := a.actor(id)
	if err != nil {
		return nil, err
	}
	if x.Commands == nil {
		return nil, fmt.Errorf("commands of %s: %w", id, allocation.ErrNotFound)
	}
	return x.Commands, nil
}

// WriteLogs writes the actors' log files into a directory.
func (a *Agent) WriteLogs(dir string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dir, a.shown = datadir.In(dir, "logs"), nil
	if err := os.MkdirAll(a.dir.Logs(), 0o755); err != nil {
		return err
	}
	for _, x := range a.actors {
		for stream, text := range map[string]string{"stdout": x.Output, "stderr": ""} {
			if err := os.WriteFile(filepath.Join(a.dir.Logs(), x.Name+"."+stream+".0"), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// node returns a machine with two drivers, one of which does not work.
func (a *Agent) node() node.Node {
	return node.Node{
		ID: "7c7f5b1e-0000-4000-8000-000000000001", Name: "node-1", Datacenter: "dc1", Region: "global",
		Attributes: map[string]string{"kernel.name": "linux", "kernel.version": "6.12.0", "cpu.arch": "amd64"},
		Resources:  node.Resources{Cores: []int{0, 1, 2, 3}, MemoryBytes: 16 * gib},
		Drivers: map[string]node.Driver{
			"tacho": {Name: "tacho", Detected: true, Healthy: true},
			"java":  {Name: "java", Detected: false, Reason: "no java was found"},
		},
		StartedAt: a.now().Add(-26 * time.Hour),
	}
}

// NodeStats are those of a machine that is half busy.
func (a *Agent) NodeStats(context.Context) (*node.Stats, error) {
	s := &node.Stats{
		Time: a.now(), Uptime: 50 * time.Hour,
		Memory: node.Memory{Total: 16 * gib, Available: 9 * gib, Used: 6 * gib, Free: 4 * gib},
	}
	for i := range 4 {
		s.CPU = append(s.CPU, node.CPU{Name: fmt.Sprintf("cpu%d", i), TotalPercent: 40 +
			10*wave(float64(a.now().Unix()), float64(7+i))})
	}
	return s, nil
}

// Cost is a little.
func (a *Agent) Cost() snapshot.Cost {
	return snapshot.Cost{CPUSeconds: 312, RSSBytes: 34 * mib, Uptime: 26 * time.Hour, Samples: 93_600}
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// ID returns a UUID that is easy to tell apart.
func ID(n int) string { return fmt.Sprintf("%08x-aaaa-4aaa-8aaa-%012x", uint32(n)*0x1f3d5b79, n) }

// number sets a measurement if it is not negative.
func number(s *procstats.Sample, id procstats.ID, value float64) {
	if value >= 0 {
		s.SetNumber(id, value)
	}
}

// words are lines for an output.
func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "level=info msg=\"request served\" n=%d duration=%dms\n", i, 3+i%9)
	}
	return b.String()
}
