// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/places"
)

// DriverOptions configure the driver.
type DriverOptions struct {
	// Plugins are the operator's plugin blocks.
	Plugins map[string]*config.Plugin
	// DataDir is the agent's; it determines the directory of the agent's executors.
	DataDir string
	// Unlimited leaves the limits of jobs alone, unless the operator has a plugin block for the driver.
	Unlimited bool
	Version   string
	Logger    hclog.Logger
	// Event is called for each event of a task, Changed when the driver's health changes.
	Event   func(*driver.Event)
	Changed func(node.Driver)
}

// Driver is the agent's task driver.
type Driver struct {
	*driver.Tacho
	options DriverOptions

	mu    sync.Mutex // guards about
	about node.Driver
}

// OpenDriver returns the driver. It refuses plugin blocks of other drivers: a misspelled name must not be ignored.
func OpenDriver(o DriverOptions) (*Driver, error) {
	for _, name := range slices.Sorted(maps.Keys(o.Plugins)) {
		if name != driver.Name {
			return nil, fmt.Errorf("%s: %w", placeOf(o.Plugins[name]), CheckDriver(name))
		}
	}
	own, err := ownConfig(o)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		Tacho:   driver.New(driver.Options{Config: own, Version: o.Version, Logger: o.Logger.Named(driver.Name)}),
		options: o, about: node.Driver{Name: driver.Name, Version: o.Version},
	}
	d.Serve()
	return d, nil
}

// CheckDriver refuses the names of other drivers.
func CheckDriver(name string) error {
	if name == driver.Name {
		return nil
	}
	return fmt.Errorf("unknown driver %q; known drivers: %s", name, driver.Name)
}

// ownConfig is the driver's configuration. Errors have the place of the operator's block.
func ownConfig(o DriverOptions) (driver.Config, error) {
	own := driver.DefaultConfig()
	own.Enforce = !o.Unlimited
	place := "plugin " + driver.Name
	if block := o.Plugins[driver.Name]; block != nil {
		place = placeOf(block)
		encoded, diags := driver.ConfigSchema().Encode(block.Body, nil)
		if diags.HasErrors() {
			return own, places.Join(diags.Errs()...)
		}
		var err error
		if own, err = driver.DecodeConfig(encoded); err != nil {
			return own, places.Each(err, func(cause error) error { return fmt.Errorf("%s: %w", place, cause) })
		}
		if own.LogCollection != driver.LogsByExecutor {
			return own, fmt.Errorf("%s: log_collection %q: the agent does not collect logs; use %q",
				place, own.LogCollection, driver.LogsByExecutor)
		}
	}
	var err error
	if own.RuntimeDir, err = runtimeDir(own.RuntimeDir, o.DataDir); err != nil {
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
	dir, longest := datadir.Executors(dataDir), driver.LongestRuntimeDir()
	if chosen == "" && len(dir) <= longest {
		return dir, nil
	}
	name := datadir.SharedName(dataDir)
	if longest -= len("/" + name); len(chosen) > longest {
		const text = "runtime_dir %q has %d bytes; at most %d, " +
			"because the path of a socket in the agent's own directory below it can have 107, unix(7)"
		return "", fmt.Errorf(text, chosen, len(chosen), longest)
	}
	return filepath.Join(cmp.Or(chosen, client.DefaultRuntimeDir()), name), nil
}

// About returns what is known of the driver.
func (d *Driver) About() node.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.about
}

// configure decodes a task's config block into the driver's request, and refuses what the driver would not start.
// Expressions in body may refer to vars.
func (d *Driver) configure(into *driver.TaskConfig, task *job.Task, body hcl.Body, vars *hcl.EvalContext) error {
	encoded, diags := driver.TaskSchema().Encode(body, vars)
	if diags.HasErrors() {
		return job.Mistakes(diags)
	}
	if err := driver.CheckSignal(task.KillSignal); err != nil {
		return task.Places.Fault("kill_signal", err)
	}
	block, err := driver.DecodeBlock(encoded)
	if err != nil {
		return task.Places.Fault("config", err)
	}
	if l := task.Logs; l != nil && block.Logs == (driver.LogLimits{}) {
		block.Logs = driver.LogLimits{MaxFiles: l.MaxFiles, MaxFileBytes: int64(l.MaxFileSizeMB) << 20}
	}
	into.Block = block
	return nil
}

// checkTask refuses what the operator's configuration does not allow a task that configure has accepted.
func (d *Driver) checkTask(task *job.Task, config *driver.TaskConfig) error {
	return places.Join(
		task.Places.Fault("user", d.CheckUser(task.User)), task.Places.Fault("config", d.CheckBlock(config.Block)))
}

// Run follows the driver's health and events until ctx is done.
func (d *Driver) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { follow(ctx, d.Fingerprint, func(f *driver.Fingerprint) { d.options.Changed(d.observe(f)) }) })
	work.Go(func() { follow(ctx, d.TaskEvents, d.options.Event) })
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
	if f.Err != nil {
		a.Healthy, a.Reason = false, f.Err.Error()
	}
	return *a
}
