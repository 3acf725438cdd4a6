// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package alloc runs allocations and their tasks: it starts, recovers, restarts and stops them, and makes their final
// records.
//
//	Alloc ──plan──► Tasks, each with a hook.Runner
//	                  ├── Starter: directories, templates, environment, driver
//	                  ├── Observer: the state store first, then the event feed
//	                  └── StatsHook ──► usage: figures, history
package alloc

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Driver is the agent's task driver.
type Driver struct {
	*driver.Tacho
	host *Host
	// changed is called when the driver's health changes.
	changed    func(node.Driver)
	runtimeDir string // for the executors of this agent alone

	mu    sync.Mutex // guards about
	about node.Driver
}

// OpenDriver returns the driver of a host. It refuses plugin blocks of other drivers: a misspelled name must not be
// ignored.
func OpenDriver(h *Host, changed func(node.Driver)) (*Driver, error) {
	plugins := h.Config().Plugins
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		if name != driver.Name {
			return nil, fmt.Errorf("%s: %w", placeOf(plugins[name]), CheckDriver(name))
		}
	}
	own, err := h.driverConfig(plugins[driver.Name])
	if err != nil {
		return nil, err
	}
	options := driver.Options{Config: own, Version: version.String(), Logger: h.Log.Named("driver").Named(driver.Name)}
	d := &Driver{
		Tacho: driver.New(options), host: h, changed: changed, runtimeDir: own.RuntimeDir,
		about: node.Driver{Name: driver.Name},
	}
	d.Serve()
	return d, nil
}

// Close detaches from all tasks, and removes the directory of their executors if none goes on.
func (d *Driver) Close() error {
	err := d.Tacho.Close()
	_ = os.Remove(d.runtimeDir) // else it is not empty, or was never made
	return err
}

// CheckDriver refuses the names of other drivers.
func CheckDriver(name string) error {
	if name == driver.Name {
		return nil
	}
	return fmt.Errorf("unknown driver %q; known drivers: %s", name, driver.Name)
}

// driverConfig returns the driver's configuration by the operator's block, nil for none. Errors have the place of the
// block.
func (h *Host) driverConfig(block *config.Plugin) (own driver.Config, err error) {
	own = driver.DefaultConfig()
	place := "plugin " + driver.Name
	switch {
	case block != nil:
		place = placeOf(block)
		encoded, diags := driver.ConfigSchema().Encode(block.Body, nil)
		if diags.HasErrors() {
			return own, job.Mistakes(diags)
		}
		if own, err = driver.DecodeConfig(encoded); err != nil {
			return own, job.EachMistake(err, func(cause error) error { return fmt.Errorf("%s: %w", place, cause) })
		}
		if own.LogCollection != driver.LogsByExecutor {
			return own, fmt.Errorf("%s: log_collection %q: the agent does not collect logs; use %q",
				place, own.LogCollection, driver.LogsByExecutor)
		}
	case h.Config().Dev && os.Geteuid() != 0:
		// Without root there often is no cgroup to hold a limit in. A first try must not end there.
		own.Enforce = false
		h.Log.Warn("limits of jobs are not enforced: this development agent does not run as root")
	}
	if own.RuntimeDir, err = runtimeDir(own.RuntimeDir, h.Config().DataDir); err != nil {
		return own, fmt.Errorf("%s: %w", place, err)
	}
	return own, nil
}

// placeOf names a plugin block with the place where it begins.
func placeOf(block *config.Plugin) string {
	at := block.Range
	return fmt.Sprintf("%s:%d,%d: plugin %q", at.Filename, at.Start.Line, at.Start.Column, block.Name)
}

// runtimeDir returns a directory for the executors of this agent alone: the agent kills executors in it that it does
// not know. It is within the data directory. If its path would be too long, or the operator chose a directory, it is
// below that or the user's own, and named after the data directory: `tacho run` and other agents may have theirs
// beside it.
func runtimeDir(chosen, dataDir string) (string, error) {
	longest, name := driver.LongestRuntimeDir(), datadir.SharedName(dataDir)
	if dir := datadir.Executors(dataDir); chosen == "" && len(dir) <= longest {
		return dir, nil
	}
	if longest -= len("/" + name); len(chosen) > longest {
		const text = "runtime_dir %q has %d bytes; at most %d, " +
			"because the path of a socket in the agent's own directory below it can have %d, unix(7)"
		return "", fmt.Errorf(text, chosen, len(chosen), longest, paths.LongestSocket)
	}
	if chosen == "" {
		var err error
		if chosen, err = driver.FindRuntimeDir(len("/" + name)); err != nil {
			return "", fmt.Errorf("%w (runtime_dir chooses one; a data_dir of at most %d bytes needs none)",
				err, driver.LongestRuntimeDir()-len("/run"))
		}
	}
	return filepath.Join(chosen, name), nil
}

// About returns what is known of the driver.
func (d *Driver) About() node.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.about
}

// NodeNow returns the machine with what is known of the driver.
func (h *Host) NodeNow() *node.Node {
	n, own := h.Node, h.Driver.About()
	n.Drivers = map[string]node.Driver{own.Name: own}
	return &n
}

// Run follows the driver's health and events until ctx is done.
func (d *Driver) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { follow(ctx, d.Fingerprint, func(f *driver.Fingerprint) { d.changed(d.observe(f)) }) })
	work.Go(func() { follow(ctx, d.TaskEvents, d.host.onDriverEvent) })
}

// onDriverEvent passes a driver's event on to its task.
func (h *Host) onDriverEvent(e *driver.Event) {
	if a := h.Find(e.AllocID); a != nil {
		for _, t := range a.Tasks() { // an allocation that has ended had all before
			if t.spec.Name == e.TaskName {
				t.onDriverEvent(e)
			}
		}
	}
}

// follow reads a stream to its end. Streams of a driver in this process end with ctx or with the driver.
func follow[T any](ctx context.Context, open func(context.Context) (driver.Stream[T], error), got func(T)) {
	stream, err := open(ctx)
	for err == nil {
		var v T
		if v, err = stream.Recv(); err == nil {
			got(v)
		}
	}
}

// observe applies a fingerprint and returns the new state.
func (d *Driver) observe(f *driver.Fingerprint) node.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &d.about
	a.Attributes, a.Reason, a.UpdatedAt = f.Attributes, f.Description, time.Now()
	a.Detected, a.Healthy = f.Health != driver.Undetected, f.Health == driver.Healthy
	return *a
}

// Host is what the allocations of an agent share. Its fields do not change once there is an allocation.
type Host struct {
	// Context ends with the agent, which then waits for Work.
	Context context.Context
	Work    sync.WaitGroup
	Log     hclog.Logger
	Config  func() config.Config
	// Dir has the directories of all allocations.
	Dir     string
	Node    node.Node
	Driver  *Driver
	Store   *state.Store
	Feed    *snapshot.Feed
	History *series.Writer
	Counts  Counts
	Pulse   Pulse
	// Clock replaces the clocks of the machine in tests; nil otherwise.
	Clock func() hook.Instant

	// Find returns an allocation by its ID, nil if it is unknown.
	Find func(id string) *Alloc
	// Ended is called when an allocation has ended, Failed then and when it is restored, if it is to be rescheduled.
	Ended, Failed func(*Alloc)
}

// bootID names the boot of the machine; empty if the system does not tell.
//
//nolint:gochecknoglobals // it does not change while a process runs
var bootID = sync.OnceValue(func() string {
	boot, _ := kernel.BootID(kernel.HostFS()) // the wall clock counts then
	return boot
})

// Now is the present.
func (h *Host) Now() hook.Instant {
	if h.Clock != nil {
		return h.Clock()
	}
	return hook.Instant{Wall: time.Now(), Boot: bootID(), Up: kernel.SinceBoot()}
}

// Apply persists what is about to happen. After an error it must not.
func (h *Host) Apply(changes ...state.Change) error {
	err := h.Store.Failing()
	if err == nil {
		err = h.Store.Apply(changes...)
	}
	if err != nil {
		h.Counts.Fail("state")
	}
	return err
}

// Persist persists what has happened. A failure is retried, and Health reports it meanwhile.
func (h *Host) Persist(changes ...state.Change) {
	if err := h.Store.Persist(changes...); err != nil {
		h.StateChanged(err)
	}
}

// StateChanged logs that the state cannot be persisted, or can be again.
func (h *Host) StateChanged(err error) {
	if err == nil {
		h.Log.Info("the state is persisted again")
		return
	}
	h.Log.Error("persist state; trying again", "error", err)
	h.Counts.Fail("state")
}

// Counts are what an agent counts of its own work.
type Counts struct {
	Samples, Backlogged atomic.Int64

	mu     sync.Mutex // guards errors
	errors map[string]int64
}

// Fail counts a failure by what failed.
func (c *Counts) Fail(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = make(map[string]int64)
	}
	c.errors[what]++
}

// Failures returns all counts, zeros included: a series that begins with its first failure shows no increase.
func (c *Counts) Failures() map[string]int64 {
	all := make(map[string]int64)
	for _, what := range [...]string{"gc", "history", "orphans", "placement", "recovery", "reschedule", "state"} {
		all[what] = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(all, c.errors)
	return all
}
