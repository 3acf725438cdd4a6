// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/driver/schema"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/places"
	pluginconfig "github.com/tachograph/tacho/plugin/config"
	"github.com/tachograph/tacho/plugin/host"
)

const (
	firstRetry   = 500 * time.Millisecond
	longestRetry = 5 * time.Second
)

// Entry is one driver.
type Entry struct {
	name       string        // that of its file
	own        bool          // our own driver, in this process
	tacho      *driver.Tacho // own; nil else
	block      *config.Plugin
	hostConfig host.Config
	host       *host.Host     // nil for our own driver, and before a plugin was started
	adopter    driver.Adopter // nil for a driver that finds no task without a handle

	mu         sync.Mutex // guards following
	driver     driver.Driver
	recorder   driver.Recorder // nil before a plugin was started
	opened     bool
	schema     schema.Spec
	logsItself bool
	about      node.Driver
}

// Name is what a job file calls it: what the plugin says it is, or its file's name as long as that is not known.
func (e *Entry) Name() string { return e.About().Name }

// names are those by which jobs may call it.
func (e *Entry) names() []string { return []string{e.name, e.Name()} }

// Driver returns the driver. That of a plugin which is not there returns driver.ErrUnavailable.
func (e *Entry) Driver() driver.Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.driver
}

// About returns what is known of the driver.
func (e *Entry) About() node.Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.about
}

// LogsItself reports that the driver writes and rotates its tasks' log files.
func (e *Entry) LogsItself() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.logsItself
}

// Configure puts a task's config block into what the driver is to start: decoded for the one in this process, encoded
// for one behind a wire. body is the block, vars what expressions in it may refer to. It refuses what the driver would not
// start.
func (e *Entry) Configure(into *driver.TaskConfig, task *job.Task, body hcl.Body, vars *hcl.EvalContext) error {
	e.mu.Lock()
	spec, reason := e.schema, e.about.Reason
	e.mu.Unlock()
	if spec == nil {
		return fmt.Errorf("driver %s: %s: %w", e.name, reason, driver.ErrUnavailable)
	}
	if !e.own {
		encoded, diags := pluginconfig.Encode(spec, body, vars)
		if diags.HasErrors() {
			return job.Mistakes(diags)
		}
		into.DriverConfig = encoded
		return nil
	}
	value, diags := pluginconfig.Decode(spec, body, vars)
	if diags.HasErrors() {
		return job.Mistakes(diags)
	}
	if err := e.CheckSignal(task.KillSignal); err != nil {
		return task.Places.Fault("kill_signal", err)
	}
	block, err := driver.ConfigBlockOf(value)
	if err != nil {
		return task.Places.Fault("config", err)
	}
	if l := task.Logs; l != nil && block.Logs == (driver.LogLimits{}) {
		block.Logs = driver.LogLimits{MaxFiles: l.MaxFiles, MaxFileBytes: int64(l.MaxFileSizeMB) << 20}
	}
	into.Block = block
	return nil
}

// CheckTask refuses what the configuration of the driver in this process does not allow a task; into is what Configure made of
// it. What others allow is theirs to say.
func (e *Entry) CheckTask(task *job.Task, into *driver.TaskConfig) error {
	if !e.own || into.Block == nil {
		return nil
	}
	return places.Join(task.Places.Fault("user", e.tacho.CheckUser(task.User)), task.Places.Fault("config", e.tacho.CheckBlock(into.Block)))
}

// CheckSignal refuses a name that is no signal to the driver in this process; what others know is theirs to say.
func (e *Entry) CheckSignal(name string) error {
	if !e.own {
		return nil
	}
	return driver.CheckSignal(name)
}

// FinalRecord returns the driver's own record of an ended task; nil if it keeps none.
func (e *Entry) FinalRecord(id string) (*record.Record, error) {
	r := e.currentRecorder()
	if r == nil {
		return nil, nil
	}
	return r.FinalRecord(id)
}

func (e *Entry) currentRecorder() driver.Recorder {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.recorder
}

// Commands returns what the processes of a running task used that have ended; nil if the driver does not count them.
func (e *Entry) Commands(id string) (*record.Commands, error) {
	r := e.currentRecorder()
	if r == nil {
		return nil, nil
	}
	return r.Commands(id)
}

// Adopts reports whether AdoptTask finds the driver's tasks.
func (e *Entry) Adopts() bool { return e.adopter != nil }

// AdoptTask returns the handle of a task whose start was persisted and whose handle was not, see [driver.Adopter].
func (e *Entry) AdoptTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, error) {
	if e.adopter == nil {
		return nil, driver.ErrTaskNotFound
	}
	return e.adopter.AdoptTask(ctx, task)
}

// current returns the plugin's host once it was opened.
func (e *Entry) current() *host.Host {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.opened {
		return nil
	}
	return e.host
}

func (e *Entry) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.about.Healthy, e.about.Reason, e.about.UpdatedAt = false, err.Error(), time.Now()
}

// open starts a plugin, or reattaches to the one at an address.
func (e *Entry) open(ctx context.Context, address *host.Address) error {
	if err := e.describe(ctx); err != nil {
		return err
	}
	if e.host == nil {
		plugin := host.New(e.hostConfig)
		e.mu.Lock()
		e.host, e.driver, e.recorder = plugin, plugin.Driver(), plugin.Driver()
		e.mu.Unlock()
	}
	if err := e.host.Open(ctx, address); err != nil {
		return err
	}
	remote := e.host.Driver()
	info, err := remote.Info(ctx)
	if err != nil {
		return fmt.Errorf("plugin %s: %w", e.name, err)
	}
	spec, err := remote.TaskConfigSchema(ctx)
	if err != nil {
		return fmt.Errorf("plugin %s: %w", e.name, err)
	}
	capabilities, err := remote.Capabilities(ctx)
	if err != nil {
		return fmt.Errorf("plugin %s: %w", e.name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.schema, e.logsItself, e.opened = spec, capabilities.DisableLogCollection, true
	e.about.Version, e.about.Reason = info.Version, ""
	return nil
}

// describe encodes the operator's configuration, for which the plugin is started once to ask for its name and its schema.
func (e *Entry) describe(ctx context.Context) error {
	if e.hostConfig.Config != nil || e.host != nil {
		return nil
	}
	p, err := host.Start(ctx, e.hostConfig.Options)
	if err != nil {
		return err
	}
	info, infoErr := p.Info(ctx)
	spec, err := p.ConfigSchema(ctx)
	if err = errors.Join(infoErr, err, p.Close(ctx)); err != nil {
		return fmt.Errorf("plugin %s: %w", e.name, err)
	}
	if info.Name != "" && info.Name != driver.Name {
		e.mu.Lock()
		e.about.Name = info.Name
		e.mu.Unlock()
	}
	var body hcl.Body
	if e.block != nil {
		body = e.block.Body
	}
	encoded, diags := pluginconfig.Encode(spec, body, nil)
	if diags.HasErrors() {
		return places.Each(places.Join(diags.Errs()...), func(cause error) error { return fmt.Errorf("plugin %s: %w", e.name, cause) })
	}
	e.hostConfig.Config = encoded
	return nil
}

// listen follows a driver's health and events until ctx is done.
func (r *Registry) listen(ctx context.Context, e *Entry) {
	r.work.Go(func() {
		follow(ctx, func() (driver.Stream[*driver.Fingerprint], error) { return e.Driver().Fingerprint(ctx) },
			func(f *driver.Fingerprint) { r.options.Changed(e.health(f)) },
			func(err error) { e.fail(err) })
	})
	r.work.Go(func() {
		follow(ctx, func() (driver.Stream[*driver.Event], error) { return e.Driver().TaskEvents(ctx) },
			r.options.Event, func(error) {})
	})
}

// health applies a fingerprint and returns the new state.
func (e *Entry) health(f *driver.Fingerprint) node.Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.about.Attributes = f.Attributes
	e.about.Detected, e.about.Healthy = f.Health != driver.Undetected, f.Health == driver.Healthy
	e.about.Reason, e.about.UpdatedAt = f.Description, time.Now()
	if f.Err != nil {
		e.about.Healthy, e.about.Reason = false, f.Err.Error()
	}
	return e.about
}

// follow reads a stream, and opens it again when it breaks. A driver ends a stream that works in order to learn that what
// it sent was handled, and waits for the next one: that is opened at once.
func follow[T any](ctx context.Context, open func() (driver.Stream[T], error), got func(T), broken func(error)) {
	for ctx.Err() == nil {
		stream, err := open()
		works := false
		for err == nil {
			var v T
			if v, err = stream.Recv(); err == nil {
				works = true
				got(v)
			}
		}
		if works && errors.Is(err, io.EOF) {
			continue
		}
		if errors.Is(err, driver.ErrNotSupported) {
			return
		}
		if ctx.Err() == nil && !errors.Is(err, io.EOF) {
			broken(err)
		}
		pause(ctx, time.Second)
	}
}

// pause waits, or returns false when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
