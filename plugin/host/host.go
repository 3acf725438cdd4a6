// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// Config says how a plugin is kept alive.
type Config struct {
	Options
	// Config is the operator's configuration as config.Encode makes it; nil for none.
	Config []byte
	// Node is what the plugin learns of the machine; nil for nothing.
	Node *driver.Node
	// Handles returns the tasks that have to be recovered when the plugin was started again. nil for none.
	Handles func() []*driver.TaskHandle
	// Abandoned is called with each task that could not be recovered; the host starts or abandons it.
	Abandoned func(handle *driver.TaskHandle, err error)
	// Moved is called with every new process, so that a later run of the host finds it; may be nil.
	Moved func(Address)
}

// Host keeps one plugin alive: when its process dies it is started again, configured, and recovers its tasks.
// The zero Host is of no use; see New.
type Host struct {
	config Config
	log    hclog.Logger
	remote *Remote

	// stats are the streams of statistics.
	stats statsGuard

	mu      sync.Mutex // guards following
	process *Process   // nil while there is none that is ready
}

// New returns a host that has started nothing yet.
func New(config Config) *Host {
	h := &Host{config: config, log: config.Logger}
	if h.log == nil {
		h.log = hclog.NewNullLogger()
	}
	h.remote = NewRemote(&hostConn{host: h})
	h.remote.cgroups = &taskCgroups{}
	return h
}

// Driver returns the plugin's driver. It stays the same over restarts; while there is no process its methods
// return driver.ErrUnavailable.
func (h *Host) Driver() *Remote { return h.remote }

// Open starts the plugin, or adopts the one at address if it still runs (nil for none), and configures it.
//
// The log of a plugin whose host was killed is not read any more. Many die of that with the first line
// (SIGPIPE), which comes when they are taken up; such a one is started anew.
func (h *Host) Open(ctx context.Context, address *Address) error {
	if address != nil {
		p, err := Reattach(ctx, *address)
		if err == nil {
			if err = h.adopt(ctx, p); !errors.Is(err, driver.ErrUnavailable) {
				return err
			}
		}
		if ctx.Err() != nil {
			return err // it is left to the next host
		}
		if !errors.Is(err, ErrLost) { // it runs and does not answer: there must not be two of them
			if killErr := end(ctx, *address); killErr != nil { // as on kernels without pidfds
				h.log.Error("end plugin that does not answer", "plugin", h.config.Name(), "error", killErr)
			}
		}
		err = errors.Join(err, address.removeSocket())
		h.log.Info("plugin restarted", "plugin", h.config.Name(), "reason", err)
	}
	return h.start(ctx)
}

// Run keeps the plugin alive until ctx is done. It is called after Open.
func (h *Host) Run(ctx context.Context) error {
	for {
		p := h.current()
		if p == nil {
			return fmt.Errorf("run plugin %s: it was not opened", h.config.Name())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.Gone():
		}
		h.log.Error("plugin exited", "plugin", h.config.Name(), "pid", p.Address().Process.PID)
		h.forget(ctx, p)
		if !h.restart(ctx) {
			return nil
		}
	}
}

// restart starts the plugin until it runs; false when ctx is done.
func (h *Host) restart(ctx context.Context) bool {
	const longest = 5 * time.Second
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, longest) {
		err := h.start(ctx)
		if err == nil {
			return true
		}
		h.log.Error("restart plugin", "plugin", h.config.Name(), "error", err, "next_try_in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return false
}

func (h *Host) start(ctx context.Context) error {
	p, err := Start(ctx, h.config.Options)
	if err != nil {
		return err
	}
	return h.adopt(ctx, p)
}

// adopt configures a process and lets it recover its tasks. Only then do callers get to it: before, it would
// answer that there is no such task.
func (h *Host) adopt(ctx context.Context, p *Process) error {
	if err := h.prepare(ctx, p); err != nil {
		return errors.Join(err, p.Close(ctx))
	}
	h.mu.Lock()
	h.process = p
	h.mu.Unlock()
	if h.config.Moved != nil {
		h.config.Moved(p.Address())
	}
	return nil
}

func (h *Host) prepare(ctx context.Context, p *Process) error {
	name := h.config.Name()
	if err := p.Init(ctx); err != nil {
		return fmt.Errorf("init plugin %s: %w", name, err)
	}
	if err := p.SetConfig(ctx, h.config.Config, h.config.Node); err != nil {
		return fmt.Errorf("configure plugin %s: %w", name, err)
	}
	if h.config.Handles == nil {
		return nil
	}
	for _, handle := range h.config.Handles() {
		h.remote.cgroups.recover(handle.Config)
		err := p.RecoverTask(ctx, handle)
		switch {
		case err == nil:
		case errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil:
			return fmt.Errorf("recover tasks of plugin %s: %w", name, err)
		case h.config.Abandoned != nil:
			h.config.Abandoned(handle, err)
		}
	}
	return nil
}

// Detach gives the plugin up without ending it: a later run of the host reattaches.
func (h *Host) Detach() error {
	if p := h.take(); p != nil {
		return p.Detach()
	}
	return nil
}

// Close ends the plugin. Tasks are not touched by that.
func (h *Host) Close(ctx context.Context) error {
	if p := h.take(); p != nil {
		return p.Close(ctx)
	}
	return nil
}

// Address is where the plugin is now; ok is false while there is none.
func (h *Host) Address() (address Address, ok bool) {
	if p := h.current(); p != nil {
		return p.Address(), true
	}
	return Address{}, false
}

// forget gives up a process that has ended.
func (h *Host) forget(ctx context.Context, p *Process) {
	h.mu.Lock()
	if h.process == p {
		h.process = nil
	}
	h.mu.Unlock()
	if err := p.Close(ctx); err != nil {
		h.log.Debug("close plugin", "plugin", h.config.Name(), "error", err)
	}
}

func (h *Host) take() *Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.process
	h.process = nil
	return p
}

func (h *Host) current() *Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process
}

// ErrNoProcess says that a call was not sent, because the plugin is being restarted.
var ErrNoProcess = fmt.Errorf("no process: %w", driver.ErrUnavailable)

// hostConn is a connection to whatever process there is.
type hostConn struct{ host *Host }

func (c *hostConn) conn() (grpc.ClientConnInterface, error) {
	if p := c.host.current(); p != nil {
		return p.conn, nil
	}
	return nil, fmt.Errorf("plugin %s: %w", c.host.config.Name(), ErrNoProcess)
}

// Invoke implements grpc.ClientConnInterface.
func (c *hostConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := c.conn()
	if err != nil {
		return err
	}
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c *hostConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	conn, err := c.conn()
	if err != nil {
		return nil, err
	}
	if method != drivers.Driver_TaskStats_FullMethodName {
		return conn.NewStream(ctx, desc, method, opts...)
	}
	return c.host.stats.open(c.host.current(), func() (grpc.ClientStream, error) { return conn.NewStream(ctx, desc, method, opts...) })
}

// end kills a plugin and waits until it is gone.
func end(ctx context.Context, address Address) error {
	if err := kill(address); err != nil {
		return err
	}
	const pause, limit = 10 * time.Millisecond, 5 * time.Second
	for began := time.Now(); alive(address); {
		if time.Since(began) > limit {
			return fmt.Errorf("process %d does not end", address.Process.PID)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
