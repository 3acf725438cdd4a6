// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package agent is the embedded agent: it runs the jobs of one machine and restores them after it was killed.
//
//	job file ──RunJob──► versions of jobs ──place──► allocations, each run by an alloc.Alloc
//	kill -9 ──► Run again: allocations are restored, tasks recovered, orphans killed
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/procstats"
)

// feedSize is how many events are held for followers that come late.
const feedSize = 1000

// nomadVersion is the version of Nomad whose job files and API the agent follows; constraints of jobs compare with it.
const nomadVersion = "2.0.5"

// Agent runs jobs. Its methods may be called concurrently; before Ready is closed they return nothing and errors.
type Agent struct {
	log hclog.Logger
	// opened is closed when the state is open and nobody else can have it, ready when all tasks are recovered.
	opened, ready chan struct{}
	// recovered counts the allocations of the earlier run whose tasks are recovered, of left.
	recovered, left atomic.Int64
	started         time.Time
	meter           node.Meter
	// host is complete when ready is closed.
	host *alloc.Host

	// registering keeps changes of jobs apart from each other.
	registering sync.Mutex
	// collecting keeps collections of garbage apart from each other.
	collecting sync.Mutex
	// placing is set while a failed placement waits for its next attempt.
	placing atomic.Bool

	mu     sync.Mutex // guards following
	config config.Config
	jobs   map[string]*registered
	allocs map[string]*alloc.Alloc
	// watched are cgroups that something else made, by ID; rewatch gets a value when the configuration has changed.
	watched map[string]*alloc.Watched
	rewatch chan struct{}
	// unremoved says why the directories of allocations that have ended are still there.
	unremoved map[string]string
}

// New returns an agent that has touched nothing.
func New(c config.Config, logger hclog.Logger) *Agent {
	logger = cmp.Or(logger, hclog.NewNullLogger())
	a := &Agent{
		log: logger, opened: make(chan struct{}), ready: make(chan struct{}), started: time.Now(), config: c,
		jobs: make(map[string]*registered), allocs: make(map[string]*alloc.Alloc),
		unremoved: make(map[string]string), watched: make(map[string]*alloc.Watched), rewatch: make(chan struct{}, 1),
	}
	a.host = &alloc.Host{
		Log: logger, Config: a.current, Dir: filepath.Join(c.DataDir, "alloc"), Feed: snapshot.NewFeed(feedSize, 0),
		Find: a.findByID, Ended: a.ended, Failed: a.reschedule,
	}
	a.host.History = alloc.NewHistory(logger, func() { a.host.Counts.Fail("history") })
	return a
}

// Opened is closed when Run has opened the state, so that no other agent can have it: requests may be answered.
func (a *Agent) Opened() <-chan struct{} { return a.opened }

// Ready is closed when Run has opened the state and recovered its tasks.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// isReady reports whether jobs can be run.
func (a *Agent) isReady() error {
	select {
	case <-a.ready:
		return a.host.Context.Err()
	default:
		return fmt.Errorf("%w: %d of %s", allocation.ErrRecovering, a.recovered.Load(),
			procstats.Counted(a.left.Load(), "allocation", "allocations"))
	}
}

// Recovering returns how far the recovery of tasks is, as an allocation.ErrRecovering; nil once it is done.
func (a *Agent) Recovering() error {
	if err := a.isReady(); errors.Is(err, allocation.ErrRecovering) {
		return err
	}
	return nil
}

// current returns the effective configuration.
func (a *Agent) current() config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

// Run recovers what an earlier run left behind and runs jobs until ctx is done; tasks run on then, unless the agent
// is a development one.
func (a *Agent) Run(ctx context.Context) (err error) {
	h := a.host
	for _, dir := range []string{a.current().DataDir, h.Dir} {
		if err := datadir.MakePassing(dir); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
	}
	if err := a.openStore(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Store.Close()) }()
	// Everything of the agent ends with this context; tasks of a development agent are stopped before.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	h.Context = inner
	close(a.opened)
	ready, err := a.open(ctx)
	if err != nil {
		return err
	}
	if ready {
		close(a.ready)
		if !a.current().Telemetry.PublishAllocationMetrics {
			a.logPublishing()
		}
		<-ctx.Done()
		if a.current().Dev {
			a.stopAll()
		}
	}
	cancel()
	h.Work.Wait()
	return errors.Join(alloc.Close(context.Background(), a.list()...), h.Driver.Close())
}

// openStore opens the state and reads the node's ID and the index of the last event.
func (a *Agent) openStore() error {
	store, err := state.Open(filepath.Join(a.current().DataDir, "state.db"))
	if err != nil {
		return err
	}
	a.logDamage(store.Damage)
	h := a.host
	next, err := store.Index(feedSize, func() uint64 { return h.Feed.Index() })
	id, idErr := store.NodeID(allocation.NewID)
	if err := errors.Join(err, idErr); err != nil {
		return errors.Join(fmt.Errorf("read state: %w", err), store.Close())
	}
	h.Store, h.Feed, h.Node = store, snapshot.NewFeed(feedSize, next), a.describeNode(id)
	return nil
}

// logDamage names what was wrong with the state.
func (a *Agent) logDamage(d *state.Damage) {
	if d == nil {
		return
	}
	a.host.Counts.Fail("state")
	a.log.Error("state database is damaged: moved it, and kept the records that are whole", "moved_to", d.Moved,
		"damage", errors.Join(d.Faults...))
}

// describeNode describes this machine.
func (a *Agent) describeNode(id string) node.Node {
	c := a.current()
	hostname, _ := os.Hostname() // optional
	n := node.Node{
		ID: id, Name: cmp.Or(c.Name, hostname, "node"), Datacenter: c.Datacenter, Region: c.Region,
		Meta: c.Client.Meta, StartedAt: a.started,
	}
	n.Attributes, n.Resources = node.Describe(c.DataDir)
	n.Attributes["tacho.version"], n.Attributes["nomad.version"] = version.String(), nomadVersion
	n.Attributes["unique.network.ip-address"] = node.Address()
	n.Attributes["unique.advertise.address"] = n.Attributes["unique.network.ip-address"]
	return n
}

// open opens the driver and recovers the tasks. It returns false if ctx is done before everything is recovered: the
// next agent recovers the rest then.
func (a *Agent) open(ctx context.Context) (ready bool, err error) {
	persisted, err := a.load()
	if err != nil {
		return false, err
	}
	h := a.host
	h.Driver, err = alloc.OpenDriver(h, a.driverChanged)
	if err != nil {
		return false, fmt.Errorf("open driver: %w", err)
	}
	spared := append(a.adoptLost(persisted), a.restore(ctx, persisted)...)
	if ctx.Err() != nil {
		return false, nil // a task that is not known by now may not be an orphan
	}
	failpoint.At("agent.recover.orphans")
	killed, err := h.Driver.KillOrphans(ctx, spared...)
	if err != nil {
		a.log.Error("kill orphaned tasks", "error", err)
		h.Counts.Fail("orphans")
	}
	for _, id := range killed {
		a.log.Warn("killed an orphaned task: the state has no handle of it", "executor", id)
	}
	h.Work.Go(func() { h.Driver.Run(h.Context) })
	h.Work.Go(func() { h.Pulse.Run(h.Context, a.log) })
	h.Work.Go(func() { h.Store.Run(h.Context, h.StateChanged) })
	for _, l := range a.list() {
		h.Work.Go(l.Begin)
	}
	a.resume()
	h.Work.Go(a.collect)
	h.Work.Go(a.watch)
	return true, nil
}

func (a *Agent) driverChanged(d node.Driver) {
	a.log.Debug("driver changed", "driver", d.Name, "healthy", d.Healthy, "reason", d.Reason)
	a.host.Feed.Publish(snapshot.Event{Topic: snapshot.TopicNode, Type: "NodeStreamEvent", Key: a.host.Node.ID})
	if a.isReady() == nil { // else everything is placed once it is recovered
		a.retryPlacement()
	}
}

// stopAll stops all allocations and waits for their ends.
func (a *Agent) stopAll() {
	all := a.list()
	alloc.StopAll(all, "development agent stopped")
	longest := time.Duration(0)
	for _, l := range all {
		longest = max(longest, l.KillTimeouts())
	}
	longest += 30 * time.Second // for poststop tasks, and to kill
	deadline := time.After(longest)
	for _, l := range all {
		select {
		case <-l.Done():
		case <-deadline:
			a.log.Error("stop tasks: not all ended in time", "after", longest)
			return
		}
	}
}

// Health returns why the agent is not healthy: what it decides would not survive a restart; nil if it is.
func (a *Agent) Health() error {
	if err := a.isReady(); err != nil {
		return err
	}
	return a.host.Store.Health()
}

// Reload applies what can change while tasks run, and names the options that require a restart.
func (a *Agent) Reload(c config.Config) (ignored []string, err error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	before := a.config
	a.config, ignored = before.Reloaded(c)
	on := a.config.Telemetry.PublishAllocationMetrics
	a.mu.Unlock()
	if level := hclog.LevelFromString(c.LogLevel); level != hclog.NoLevel {
		a.log.SetLevel(level)
	}
	if on != before.Telemetry.PublishAllocationMetrics {
		a.publish(on)
	}
	select {
	case a.rewatch <- struct{}{}:
	default:
	}
	return ignored, nil
}

// publish turns publishing on or off for all tasks at once: a task whose executor does not answer delays no other.
func (a *Agent) publish(on bool) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(a.host.Context, limit)
	defer cancel()
	var switching sync.WaitGroup
	for _, l := range a.list() {
		for _, t := range l.Tasks() {
			switching.Go(func() { t.SetPublish(ctx, on) })
		}
	}
	switching.Wait()
	a.logPublishing()
}

// logPublishing logs whether stats are collected and, if not, how to turn them on.
func (a *Agent) logPublishing() {
	if !a.current().Telemetry.PublishAllocationMetrics {
		a.log.Info(notPublishing)
		return
	}
	a.log.Info("publishing is on")
}
