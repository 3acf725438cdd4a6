// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"context"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/tachograph/tacho/executor/proto"
)

// The versions of executor/proto that this build speaks. Version 1 is the first; a later one adds and never
// changes, so that an old executor can be served by a new driver and the reverse.
const (
	ProtocolMin = 1
	ProtocolMax = 1
)

// Window is how many bytes of a stream each side accepts ahead of their reader, the least that HTTP/2 has.
const Window = 64 << 10

// PluginName is the name under which go-plugin dispenses the executor.
const PluginName = "executor"

// KeepIgnored is the variable in an executor's environment by which its task is to ignore what its caller ignores.
const KeepIgnored = "TACHO_EXECUTOR_KEEP_IGNORED"

// Handshake is go-plugin's: it tells an executor that was started by us from one that a user started by hand.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  1,
		MagicCookieKey:   "TACHO_EXECUTOR_COOKIE",
		MagicCookieValue: "f1c5a8e07d2b4c36",
	}
}

// Plugin is both sides of the executor for go-plugin: a server where Executor is set, else a client.
type Plugin struct {
	goplugin.NetRPCUnsupportedPlugin
	Executor proto.ExecutorServer
}

// GRPCServer registers the executor's service.
func (p *Plugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	proto.RegisterExecutorServer(s, p.Executor)
	return nil
}

// GRPCClient returns a proto.ExecutorClient.
func (p *Plugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return proto.NewExecutorClient(conn), nil
}
