// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/host"
)

// Plugin is a plugin executable under test.
type Plugin struct {
	Options host.Options
	// Config is the operator's configuration, as config.Encode makes it.
	Config []byte
	// Node is what the plugin is told of the machine; nil for nothing.
	Node *driver.Node

	process *host.Process
}

// Open implements Subject.
func (p *Plugin) Open(ctx context.Context) (driver.Driver, error) {
	process, err := host.Start(ctx, p.Options)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(process.Init(ctx), process.SetConfig(ctx, p.Config, p.Node)); err != nil {
		return nil, errors.Join(err, process.Close(ctx))
	}
	p.process = process
	return process, nil
}

// Crash implements Subject: SIGKILL.
func (p *Plugin) Crash(ctx context.Context) error {
	process, err := os.FindProcess(p.process.Address().Process.PID)
	if err != nil {
		return err
	}
	if err := errors.Join(process.Kill(), process.Release()); err != nil {
		return err
	}
	select {
	case <-p.process.Gone():
	case <-ctx.Done():
		return fmt.Errorf("the killed plugin does not end: %w", context.Cause(ctx))
	}
	return p.Close(ctx)
}

// Close implements Subject.
func (p *Plugin) Close(ctx context.Context) error {
	process := p.process
	if process == nil {
		return nil
	}
	p.process = nil
	return process.Close(ctx)
}

// Conn implements Wired.
func (p *Plugin) Conn() grpc.ClientConnInterface { return p.process.Conn() }

// InProcess is our own driver in this process.
type InProcess struct {
	Options driver.Options

	driver *driver.Tacho
}

// Open implements Subject.
func (p *InProcess) Open(context.Context) (driver.Driver, error) {
	p.driver = driver.New(p.Options)
	return p.driver, nil
}

// Crash implements Subject. What a process that is killed does not do either is to say goodbye to its tasks; that
// its locks and connections are gone is what Close does.
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
