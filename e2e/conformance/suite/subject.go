// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

// Plugin is a plugin executable under test.
type Plugin struct {
	Options host.Options
	// Config is the operator's configuration as MessagePack.
	Config []byte
	// Topology is what the plugin is told of the machine; nil for nothing.
	Topology *base.ClientTopology

	process *host.Process
}

// Open implements Subject.
func (p *Plugin) Open(ctx context.Context) (Driver, error) {
	process, err := host.Start(ctx, p.Options)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(process.Init(ctx), process.SetConfig(ctx, p.Config, p.Topology)); err != nil {
		process.Close()
		return nil, err
	}
	p.process = process
	return process, nil
}

// Crash implements Subject: SIGKILL.
func (p *Plugin) Crash(ctx context.Context) error {
	process := p.process
	p.process = nil
	return process.Crash(ctx)
}

// Close implements Subject.
func (p *Plugin) Close(context.Context) error {
	if p.process != nil {
		p.process.Close()
	}
	p.process = nil
	return nil
}

// Conn implements Wired.
func (p *Plugin) Conn() grpc.ClientConnInterface { return p.process.Conn() }

// InProcess is our own driver in this process.
type InProcess struct {
	Options driver.Options

	driver *driver.Tacho
}

// Open implements Subject.
func (p *InProcess) Open(context.Context) (Driver, error) {
	p.driver = driver.New(p.Options)
	return local{p.driver}, nil
}

// Crash implements Subject. A process that is killed does not say goodbye to its tasks, as Close does not; its locks
// and connections are gone.
func (p *InProcess) Crash(ctx context.Context) error { return p.Close(ctx) }

// Close implements Subject.
func (p *InProcess) Close(context.Context) error {
	d := p.driver
	if d == nil {
		return nil
	}
	p.driver = nil
	return d.Close()
}

// local is our own driver with schemas and stats as they would be on the wire.
type local struct{ *driver.Tacho }

// SetConfig implements Driver.
func (l local) SetConfig(ctx context.Context, msgpack []byte, topology *base.ClientTopology) error {
	return l.Tacho.SetConfig(ctx, msgpack, wire.CoreMHz(topology))
}

// Capabilities implements Driver.
func (l local) Capabilities(context.Context) (*drivers.DriverCapabilities, error) {
	return wire.Capabilities(l.CollectsLogs()), nil
}

// ConfigSchema implements Driver.
func (local) ConfigSchema(context.Context) (*hclspec.Spec, error) {
	return wire.FromSchema(driver.ConfigSchema()), nil
}

// TaskConfigSchema implements Driver.
func (local) TaskConfigSchema(context.Context) (*hclspec.Spec, error) {
	return wire.FromSchema(driver.TaskSchema()), nil
}

// NomadStats implements Driver.
func (l local) NomadStats(
	ctx context.Context, id string, interval time.Duration,
) (driver.Stream[*drivers.TaskStats], error) {
	stream, err := l.TaskStats(ctx, id, interval)
	if err != nil {
		return nil, err
	}
	return &converted{id: id, stream: stream, before: stream.Baseline()}, nil
}

// converted is a stream of samples in Nomad's form.
type converted struct {
	id     string
	stream driver.StatsStream
	before *procstats.Sample
}

// Recv implements driver.Stream.
func (c *converted) Recv() (*drivers.TaskStats, error) {
	sample, err := c.stream.Recv()
	if err != nil {
		return nil, err
	}
	stats := wire.TaskStats(c.id, sample, c.before, 0)
	c.before = sample
	return stats, nil
}
