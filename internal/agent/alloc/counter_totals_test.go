// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/metrics"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// totalsTest is a task with agents one after the other, which are killed, and whoever reads their metrics.
type totalsTest struct {
	*Task
	t    *testing.T
	dir  string
	seen map[string]float64 // at the last look
	want map[string]float64 // of the starts that have ended
}

// launch begins another agent with what is on disk.
func (s *totalsTest) launch() {
	s.t.Helper()
	store := testkit.Value(state.Open(filepath.Join(s.dir, "state.db")))(s.t)
	last := state.Task{}
	tasks, err := store.Tasks()
	must(s.t, err)
	if persisted := tasks["a"]["t"]; persisted != nil {
		last = *persisted
	}
	log := hclog.NewNullLogger()
	s.Task = &Task{
		host: &Host{Store: store}, alloc: &Alloc{ID: "a"}, job: &job.Job{}, group: &job.Group{}, spec: &job.Task{Name: "t"},
		log: log, persisted: last, usage: &usage{
			log: log, interval: time.Second, keep: time.Nanosecond, counts: &Counts{}, err: func() error { return nil },
			history: NewHistory(log, func() {}).Queue(filepath.Join(s.dir, "history"), "", 100, log),
			tracker: figures.NewTracker(0, last.Starts, last.Totals),
		},
	}
}

// close is what a kill of the agent leaves behind.
func (s *totalsTest) close() {
	s.t.Helper()
	if err := s.usage.history.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
	must(s.t, s.host.Store.Close())
}

func (s *totalsTest) kill() { s.close(); s.launch(); s.look() }

// persist is the next event after something has changed.
func (s *totalsTest) persist(change func(*state.Task)) {
	s.t.Helper()
	s.update(change)
	must(s.t, s.host.Store.Health())
}

func (s *totalsTest) begin() {
	s.t.Helper()
	now := time.Now()
	s.persist(func(persisted *state.Task) {
		persisted.Starts++
		persisted.State = hook.State{Phase: hook.PhaseRunning, StartedAt: now, LastRestart: now}
	})
	s.recovered()
}

// recovered is a start that runs under this agent.
func (s *totalsTest) recovered() {
	s.usage.begin(s.persisted.Starts, s.persisted.State.StartedAt)
	s.look()
}

func (s *totalsTest) read(amount float64) { s.usage.UpdateStats(everyCounter(amount)); s.look() }

// recorded makes the final record of a start.
func (s *totalsTest) recorded(amount float64) {
	s.t.Helper()
	r := &record.Record{StartedAt: time.Now()}
	sample := everyCounter(amount)
	r.Measurements, r.Absent = record.Values(sample.Task)
	r.Headline = record.Headlines(procstats.Headlines(sample, procstats.History{}))
	must(s.t, s.host.Store.Apply(state.ChangeRecord("a", "t", r)))
}

// exited has the agent learn of the end; nothing is persisted.
func (s *totalsTest) exited() {
	s.t.Helper()
	must(s.t, (*recorder)(s.Task).Exited(s.t.Context(), &hook.ExitedRequest{Exit: hook.Exit{Code: 1}}))
	s.look()
}

func (s *totalsTest) decided() {
	s.persist(func(persisted *state.Task) { persisted.State.Phase = hook.PhasePending })
	s.look()
}

// look reads the counters: none is ever lower than before.
func (s *totalsTest) look() {
	s.t.Helper()
	for _, family := range metrics.New(s, streams.New(streams.DefaultLimits())).Gather(s.t.Context()) {
		if family.Type != exposition.Counter || len(family.Samples) != 1 {
			continue
		}
		v := family.Samples[0].Value
		if before := s.seen[family.Name]; v < before {
			s.t.Errorf("%s went from %v down to %v", family.Name, before, v)
		}
		s.seen[family.Name] = v
	}
}

// Snapshot implements metrics.Agent.
func (s *totalsTest) Snapshot(...string) *snapshot.Agent {
	shown := s.snapshot()
	return &snapshot.Agent{
		Config:      config.Config{Telemetry: config.Telemetry{AllocationDetail: metrics.DetailAlloc, FilterDefault: true}},
		Allocations: []*allocation.Allocation{{ID: "a", Tasks: map[string]*allocation.Task{"t": shown}}},
		Usages:      map[*allocation.Task]*figures.Figures{shown: s.usage.figures("")},
	}
}

// NodeStats implements metrics.Agent.
func (s *totalsTest) NodeStats(context.Context) (*node.Stats, error) { return &node.Stats{}, nil }

// Cost implements metrics.Agent.
func (s *totalsTest) Cost() snapshot.Cost { return snapshot.Cost{} }

// everyCounter is a reading with every counter of the table, each by another number.
func everyCounter(amount float64) *procstats.Sample {
	s := &procstats.Sample{Stamp: kernel.Now()}
	for _, m := range procstats.Table() {
		if m.Kind == procstats.Counter && m.Scope == procstats.TaskScope {
			s.SetNumber(m.ID, amount*float64(m.ID))
		}
	}
	return s
}

// ends adds what a start has used, by metric.
func (s *totalsTest) ends(amount float64) {
	readings := everyCounter(amount).Task
	for _, h := range procstats.Headlines(everyCounter(amount), procstats.History{}) {
		readings.Put(h.Reading)
	}
	for _, m := range procstats.Table() {
		family, _ := exposition.FamilyOf(m)
		if v, ok := readings.Number(m.ID); ok && m.Kind == procstats.Counter {
			s.want[family.Name] += v
		}
	}
	s.want[exposition.Prefix+"oom_kills_total"] += amount * float64(procstats.CgroupMemoryEventsOOMKill)
}

// TestTotals takes every counter of the table through three starts, which all end in the same way.
func TestTotals(t *testing.T) {
	t.Parallel()
	type step = func(*totalsTest)
	begin, recovered, exited := (*totalsTest).begin, (*totalsTest).recovered, (*totalsTest).exited
	decided, kill := (*totalsTest).decided, (*totalsTest).kill
	read := func(amount float64) step { return func(s *totalsTest) { s.read(amount) } }
	recorded := func(amount float64) step { return func(s *totalsTest) { s.recorded(amount) } }
	for name, start := range map[string][]step{
		"with a record":           {begin, read(4), recorded(10), exited, decided},
		"never read":              {begin, recorded(10), exited, decided},
		"reported again":          {begin, recorded(10), exited, exited, decided, kill, exited},
		"recovered":               {begin, read(4), kill, recovered, read(7), recorded(10), exited, decided},
		"while the agent is away": {begin, read(4), recorded(10), kill, exited, decided},
		"before a kill of the agent that does not know it yet": {begin, read(4), recorded(10), exited, kill, exited, decided},
		"before a kill of the agent that knows it":             {begin, read(4), recorded(10), exited, decided, kill},
		"with a record that has less than was read":            {begin, read(10), recorded(9), exited, decided},
		"with a counter that is read lower for once":           {begin, read(10), read(4), exited, decided},
		"without a record":               {begin, read(10), exited, decided},
		"without a record and the agent": {begin, read(10), kill, exited, decided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &totalsTest{t: t, dir: t.TempDir(), seen: map[string]float64{}, want: map[string]float64{}}
			s.launch()
			defer func() { s.close() }()
			for range 3 {
				for _, step := range start {
					step(s)
				}
				s.ends(10)
				got := map[string]float64{}
				for name := range s.want {
					got[name] = s.seen[name]
				}
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Fatalf("after %d starts (-want +got):\n%s", s.persisted.Starts, diff)
				}
			}
			for _, m := range procstats.Table() {
				if family, ok := exposition.FamilyOf(m); ok && m.Kind == procstats.Counter && s.want[family.Name] == 0 {
					t.Errorf("%s was not tried", family.Name)
				}
			}
		})
	}
}
