// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package registry has the agent's task drivers: our own in this process, and those of other people's plugin
// executables.
package registry

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/places"
	pluginconfig "github.com/tachograph/tacho/plugin/config"
	"github.com/tachograph/tacho/plugin/host"
)

// Options say which drivers there are.
type Options struct {
	PluginDir string
	Plugins   map[string]*config.Plugin
	// DataDir is the agent's; it says where executors of our own driver are, and nobody else's.
	DataDir string
	// Unlimited leaves the limits of jobs alone, unless the operator says something about our own driver.
	Unlimited bool
	Version   string
	// Node describes the machine to plugins. Some do not run without it.
	Node   *driver.Node
	Logger hclog.Logger
	// Handles returns the tasks that a driver has to recover, by the names that it has.
	Handles func(driverNames ...string) []*driver.TaskHandle
	// Abandoned is called for each task that could not be recovered.
	Abandoned func(handle *driver.TaskHandle, err error)
	// Address returns the last address of a plugin's process; Moved is called with the new one.
	Address func(name string) *host.Address
	Moved   func(name string, address host.Address)
	// Event is called for each event of a driver's tasks, Changed when a driver's health changes.
	Event   func(*driver.Event)
	Changed func(node.Driver)
}

// Registry has the drivers.
type Registry struct {
	options Options
	log     hclog.Logger
	tacho   *driver.Tacho
	// entries are by the names of their files.
	entries map[string]*Entry
	work    sync.WaitGroup
}

// Open makes our own driver and starts the plugins of the directory. A plugin that does not start is kept as unhealthy:
// its tasks may well run.
func Open(ctx context.Context, o Options) (*Registry, error) {
	var found []host.Options
	if o.PluginDir != "" {
		var err error
		if found, err = host.Discover(o.PluginDir); err != nil {
			return nil, err
		}
	}
	if err := unknownPlugins(o.Plugins, found); err != nil {
		return nil, err
	}
	r := &Registry{options: o, log: o.Logger, entries: make(map[string]*Entry)}
	if err := r.openTacho(ctx); err != nil {
		return nil, err
	}
	for _, options := range found {
		r.openPlugin(ctx, options)
	}
	return r, nil
}

// unknownPlugins refuses the configuration of a plugin that is not there: a spelling mistake must not go unseen.
func unknownPlugins(configured map[string]*config.Plugin, found []host.Options) error {
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		isIt := func(o host.Options) bool { return o.Name() == name }
		if name != driver.Name && !slices.ContainsFunc(found, isIt) {
			return fmt.Errorf("%s: plugin %q is not in plugin_dir", placeOf(configured[name]), name)
		}
	}
	return nil
}

func (r *Registry) openTacho(ctx context.Context) error {
	own, err := r.ownConfig()
	if err != nil {
		return err
	}
	r.tacho = driver.New(driver.Options{Config: own, Version: r.options.Version, Logger: r.log.Named(driver.Name)})
	schema, err := r.tacho.TaskConfigSchema(ctx)
	if err != nil {
		return fmt.Errorf("driver %s: %w", driver.Name, err)
	}
	r.entries[driver.Name] = &Entry{
		driver: r.tacho, recorder: r.tacho, adopter: r.tacho, name: driver.Name, own: true, tacho: r.tacho, schema: schema, logsItself: own.LogCollection == driver.LogsByExecutor,
		about: node.Driver{Name: driver.Name, Version: r.options.Version},
	}
	r.tacho.Serve()
	return nil
}

// ownConfig is that of the driver in this process. Its errors have the place of the operator's block.
func (r *Registry) ownConfig() (driver.Config, error) {
	own := driver.DefaultConfig()
	own.Enforce = !r.options.Unlimited
	place := "plugin " + driver.Name
	if block := r.options.Plugins[driver.Name]; block != nil {
		place = fmt.Sprintf("%s: plugin %q", placeOf(block), driver.Name)
		if len(block.Args) > 0 {
			return own, fmt.Errorf("%s: args: the driver is built in and has no executable to pass them to", place)
		}
		value, diags := pluginconfig.Decode(driver.ConfigSchema(), block.Body, nil)
		if diags.HasErrors() {
			return own, places.Join(diags.Errs()...)
		}
		var err error
		if own, err = driver.ConfigOf(value); err != nil {
			return own, places.Each(err, func(cause error) error { return fmt.Errorf("%s: %w", place, cause) })
		}
	}
	var err error
	if own.RuntimeDir, err = runtimeDir(own.RuntimeDir, r.options.DataDir); err != nil {
		return own, fmt.Errorf("%s: %w", place, err)
	}
	return own, nil
}

// placeOf is where a plugin's block begins.
func placeOf(block *config.Plugin) string {
	at := block.Range
	return fmt.Sprintf("%s:%d,%d", at.Filename, at.Start.Line, at.Start.Column)
}

// openPlugin starts one plugin. If that fails it is tried again in the background.
func (r *Registry) openPlugin(ctx context.Context, o host.Options) {
	name := o.Name()
	if name == driver.Name {
		r.log.Info("plugin ignored: the driver is built in", "path", o.Path)
		return
	}
	o.Logger = r.log.Named(name)
	none := host.New(host.Config{Options: o})
	e := &Entry{name: name, driver: none.Driver(), about: node.Driver{Name: name, Plugin: o.Path, Reason: "starting"}}
	hostConfig := host.Config{Options: o, Node: r.options.Node, Abandoned: r.options.Abandoned}
	hostConfig.Handles = func() []*driver.TaskHandle { return r.options.Handles(e.names()...) }
	hostConfig.SocketDir = socketDir(r.options.DataDir)
	hostConfig.Moved = func(a host.Address) { r.options.Moved(name, a) }
	if block := r.options.Plugins[name]; block != nil {
		hostConfig.Args = block.Args
		e.block = block
	}
	e.hostConfig = hostConfig
	r.entries[name] = e
	if err := e.open(ctx, r.options.Address(name)); err != nil {
		e.fail(err)
		r.log.Error("start plugin", "plugin", name, "error", err)
	}
}

// Run keeps plugins alive and listens to all drivers until ctx is done.
func (r *Registry) Run(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		e := r.entries[name]
		if e.about.Plugin != "" {
			r.work.Go(func() { r.keep(ctx, e) })
			continue
		}
		r.listen(ctx, e)
	}
	r.work.Wait()
}

// keep opens a plugin until that succeeds, and then keeps it alive.
func (r *Registry) keep(ctx context.Context, e *Entry) {
	for wait := firstRetry; e.current() == nil; wait = min(2*wait, longestRetry) {
		if !pause(ctx, wait) {
			return
		}
		if err := e.open(ctx, nil); err != nil {
			e.fail(err)
			r.log.Debug("start plugin", "plugin", e.name, "error", err)
		}
	}
	r.listen(ctx, e)
	if err := e.host.Run(ctx); err != nil {
		r.log.Error("persist plugin", "plugin", e.name, "error", err)
	}
}

// Close ends all plugins, as the client of a Nomad cluster does. Tasks run on, and are recovered by the next start.
func (r *Registry) Close(ctx context.Context) error {
	errs := []error{r.tacho.Close()}
	for _, e := range r.entries {
		if e.host != nil {
			errs = append(errs, e.host.Close(ctx))
		}
	}
	return places.Join(errs...)
}

// Names returns the drivers' names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.All())) }

// Get returns a driver by its name, or the name of its file. The error says what there is instead.
func (r *Registry) Get(name string) (*Entry, error) {
	for _, e := range r.entries {
		if e.Name() == name {
			return e, nil
		}
	}
	if e := r.entries[name]; e != nil {
		return e, nil
	}
	hint := "known drivers: " + strings.Join(r.Names(), ", ")
	if near := job.Near(name, r.Names()); near != "" {
		hint = "did you mean " + near + "?"
	}
	where := "no plugin_dir is set"
	if r.options.PluginDir != "" {
		where = filepath.Join(r.options.PluginDir, name) + " does not exist"
	}
	return nil, fmt.Errorf("unknown driver %q (%s): %s", name, where, hint)
}

// KillOrphans kills tasks of our own driver that nobody knows, but for the spared ones.
func (r *Registry) KillOrphans(ctx context.Context, spared ...*driver.TaskHandle) ([]string, error) {
	return r.tacho.KillOrphans(ctx, spared...)
}

// StartedTasks returns what the tasks of our own driver were started with whose executors are there.
func (r *Registry) StartedTasks() ([]*driver.TaskConfig, error) { return r.tacho.StartedTasks() }

// All returns what is known of every driver.
func (r *Registry) All() map[string]node.Driver {
	all := make(map[string]node.Driver, len(r.entries))
	for _, e := range r.entries {
		about := e.About()
		all[about.Name] = about
	}
	return all
}
