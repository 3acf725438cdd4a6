// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package host is the hosts' side of the plugin wire: it starts a plugin executable and calls its driver.
package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/tachograph/tacho/plugin"
)

// Options say how a plugin executable is started.
type Options struct {
	// Path is the executable.
	Path string
	// Logger gets the plugin's log; nil for nothing.
	Logger hclog.Logger
}

// Process is a running plugin and a connection to it.
type Process struct {
	*Remote

	client *goplugin.Client
	cmd    *exec.Cmd
	conn   *grpc.ClientConn
}

// Start starts a plugin executable and connects to it; the plugin outlives ctx. Nothing runs on if it returns an error.
func Start(ctx context.Context, o Options) (*Process, error) {
	logger := o.Logger
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	// go-plugin's start takes no context; the end of its process ends it.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(life, o.Path)
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  plugin.Handshake(),
		Plugins:          goplugin.PluginSet{},
		Cmd:              cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           logger,
	})
	release := context.AfterFunc(ctx, kill)
	p, err := connect(client, cmd)
	if !release() { // the process was killed
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		client.Kill()
		return nil, fmt.Errorf("start plugin %s: %w", filepath.Base(o.Path), err)
	}
	return p, nil
}

func connect(client *goplugin.Client, cmd *exec.Cmd) (*Process, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	// One connection carries both services.
	over, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return nil, fmt.Errorf("plugin speaks %s, not gRPC", client.Protocol())
	}
	return &Process{Remote: NewRemote(over.Conn), client: client, cmd: cmd, conn: over.Conn}, nil
}

// Conn is the connection itself, for callers that send more than a driver takes.
func (p *Process) Conn() grpc.ClientConnInterface { return p.conn }

// Crash kills the plugin with SIGKILL and waits until it has ended.
func (p *Process) Crash(ctx context.Context) error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !p.client.Exited() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the killed plugin does not end: %w", context.Cause(ctx))
		}
	}
	p.Close()
	return nil
}

// Signal sends a signal to the plugin.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Exited reports whether the plugin has ended.
func (p *Process) Exited() bool { return p.client.Exited() }

// Close ends the plugin: it is asked to shut down, and killed if it does not. Tasks are not affected.
func (p *Process) Close() { p.client.Kill() }
