// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package agent is the embedded agent: it runs the jobs of one machine, keeps what they use, and finds them again
// after it was killed.
//
//	job file ──RunJob──► allocations ──plan──► tasks, each with a hook.Runner
//	                                              ├── Starter: directories, templates, environment, driver
//	                                              ├── Observer: the state store first, then the event feed
//	                                              └── StatsHook ──► usage: newest reading, history
//	kill -9 ──► Run again: handles are recovered, gaps marked, what nobody knows is killed
package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/registry"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/agent/trial"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// callTimeout bounds a call to a driver that nothing else bounds.
	callTimeout = 10 * time.Second
	// closeTimeout bounds the closing of files, which a disk can hold up.
	closeTimeout = 2 * time.Second
	// feedSize is how many events are held for followers that come late.
	feedSize = 1000
)

// errNotReady is returned before Run has opened the state.
var errNotReady = errors.New("the agent is not ready")

// Agent runs jobs. Its methods may be called concurrently; before Ready is closed they return nothing and errors.
type Agent struct {
	log     hclog.Logger
	ready   chan struct{}
	started time.Time
	counts  counts
	meter   node.Meter
	history *series.Writer

	// Set by Run before ready is closed.
	ctx    context.Context
	store  *state.Store
	feed   *feed.Feed
	driver *registry.Driver
	node   node.Node
	work   sync.WaitGroup

	// registering keeps changes of jobs apart from each other.
	registering sync.Mutex
	// placing is set while a placement that failed waits for its next try.
	placing atomic.Bool

	mu     sync.Mutex // guards following
	config config.Config
	jobs   map[string]*registered
	allocs map[string]*alloc
}

// New returns an agent that has touched nothing.
func New(c config.Config, logger hclog.Logger) *Agent {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	a := &Agent{
		log: logger, ready: make(chan struct{}), started: time.Now(), config: c, feed: feed.New(feedSize, 0),
		jobs: make(map[string]*registered), allocs: make(map[string]*alloc),
	}
	a.history = series.NewWriter(clock(), logger, func() { a.counts.fail("history") })
	return a
}

// clock relates the clocks of this boot of the machine, or of this process if boots cannot be told apart.
func clock() series.Clock {
	boot, err := kernel.BootID(kernel.HostFS())
	if err != nil {
		boot = time.Now().String()
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(boot)) // never fails
	return series.Clock{Boot: hash.Sum32() | 1, Suspended: kernel.Suspended}
}

// Ready is closed when Run has opened the state and recovered its tasks.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// isReady reports whether jobs can be run.
func (a *Agent) isReady() error {
	select {
	case <-a.ready:
		return a.ctx.Err()
	default:
		return errNotReady
	}
}

// current is the configuration in force.
func (a *Agent) current() config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

func (a *Agent) dataDir() string  { return a.current().DataDir }
func (a *Agent) allocDir() string { return filepath.Join(a.dataDir(), "alloc") }

// Run recovers what an earlier run left behind and runs jobs until ctx is done; tasks run on then, unless the agent
// is a development one.
func (a *Agent) Run(ctx context.Context) (err error) {
	if err := a.makeFolders(); err != nil {
		return err
	}
	if err := a.openStore(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.store.Close()) }()
	// Everything of the agent ends with this context; tasks of a development agent are stopped before.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	a.ctx = inner
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
	}
	dev := a.current().Dev
	if ready && dev {
		a.stopAll()
	}
	cancel()
	a.work.Wait()
	return errors.Join(closeAllocs(context.Background(), a.list()), a.driver.Close())
}

// open opens the driver and recovers the tasks. It returns false when ctx is done before everything is recovered: what
// runs is left for the next agent then.
func (a *Agent) open(ctx context.Context) (ready bool, err error) {
	persisted, err := a.load()
	if err != nil {
		return false, err
	}
	c := a.current()
	// Without root there often is no cgroup to hold a limit in. A first try must not end there.
	unlimited := c.Dev && os.Geteuid() != 0 && c.Plugins[driver.Name] == nil
	if unlimited {
		a.log.Warn("limits of jobs are not enforced: this development agent does not run as root")
	}
	a.driver, err = registry.Open(registry.Options{
		Plugins: c.Plugins, DataDir: c.DataDir, Unlimited: unlimited, Version: buildVersion(),
		Logger: a.log.Named("driver"), Event: a.onDriverEvent, Changed: a.driverChanged,
	})
	if err != nil {
		return false, fmt.Errorf("open driver: %w", err)
	}
	spared := append(a.adoptLost(persisted), a.recover(ctx, persisted)...)
	if ctx.Err() != nil {
		return false, nil // who is not known by now need not be an orphan
	}
	failpoint.At("agent.recover.orphans")
	killed, err := a.driver.KillOrphans(ctx, spared...)
	if err != nil {
		a.log.Error("kill orphaned tasks", "error", err)
		a.counts.fail("orphans")
	}
	for _, id := range killed {
		a.log.Warn("killed an orphaned task: the state has no handle of it", "executor", id)
	}
	a.work.Go(func() { a.driver.Run(a.ctx) })
	a.work.Go(func() { a.store.Run(a.ctx, a.stateChanged) })
	for _, l := range a.list() {
		a.work.Go(l.begin)
	}
	a.resume()
	a.work.Go(func() { a.collect(a.ctx) })
	return true, nil
}

// makeFolders makes the data directory. Users of tasks pass through it to theirs.
func (a *Agent) makeFolders() error {
	for _, dir := range []string{a.dataDir(), a.allocDir()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
	}
	return nil
}

func (a *Agent) openStore() error {
	store, err := state.Open(filepath.Join(a.dataDir(), "state.db"))
	if err != nil {
		return err
	}
	a.logDamage(store.Damage)
	a.store = store
	next, err := store.Index(feedSize, func() uint64 { return a.feed.Index() })
	if err != nil {
		return errors.Join(fmt.Errorf("read state: %w", err), store.Close())
	}
	a.feed = feed.New(feedSize, next)
	id, err := store.NodeID(newNodeID)
	if err != nil {
		return errors.Join(fmt.Errorf("read state: %w", err), store.Close())
	}
	a.node = a.describeNode(id)
	return nil
}

// Trials are the kinds of work that the agent tries in a process of its own first.
func Trials() map[string]trial.Work {
	return map[string]trial.Work{job.Trial: job.Evaluate, state.Trial: state.Verify}
}

// logDamage names what was wrong with the state.
func (a *Agent) logDamage(d *state.Damage) {
	if d == nil {
		return
	}
	a.counts.fail("state")
	a.log.Error("state database is damaged: moved it, and kept the records that are whole", "moved_to", d.Moved,
		"damage", errors.Join(d.Faults...))
}

// apply persists what is about to happen. An error means that it must not.
func (a *Agent) apply(changes ...state.Change) error {
	err := a.store.Apply(changes...)
	if err != nil {
		a.counts.fail("state")
	}
	return err
}

// persist persists what has happened, or is about to. What fails is tried again, and shown by Health meanwhile.
func (a *Agent) persist(changes ...state.Change) {
	if err := a.store.Persist(changes...); err != nil {
		a.stateChanged(err)
	}
}

// stateChanged logs that the state cannot be persisted, or can be again.
func (a *Agent) stateChanged(err error) {
	if err == nil {
		a.log.Info("the state is persisted again")
		return
	}
	a.log.Error("persist state; trying again", "error", err)
	a.counts.fail("state")
}

// Health returns why the agent is not healthy: what it decides would not survive a restart; nil if it is.
func (a *Agent) Health() error {
	if err := a.isReady(); err != nil {
		return err
	}
	return a.store.Health()
}

// list returns all allocations, in no order.
func (a *Agent) list() []*alloc {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*alloc, 0, len(a.allocs))
	for _, l := range a.allocs {
		all = append(all, l)
	}
	return all
}

// stopAll stops all allocations and waits for their ends.
func (a *Agent) stopAll() {
	stopEach(a.list(), "development agent stopped")
	const longest = 30 * time.Second
	deadline := time.NewTimer(longest)
	defer deadline.Stop()
	for _, l := range a.list() {
		select {
		case <-l.done:
		case <-deadline.C:
			a.log.Error("stop tasks: not all ended in time", "after", longest)
			return
		}
	}
}

// Reload takes over what can change while tasks run, and returns what cannot, in words.
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
	return ignored, nil
}
