// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"context"
	"strconv"

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

// Samples is the variable in an executor's environment that says that its task will be sampled by it.
const Samples = "TACHO_EXECUTOR_SAMPLES"

// NotifyFile is a FIFO in an executor's directory. The executor writes a byte into it when an event happens and when
// the task has ended, so that its owner need not stay connected to a quiet task. One byte can stand for several
// changes. An executor of an older build has none.
const NotifyFile = "notify"

// ErrorPrefix begins what an executor that cannot start writes to its standard error.
const ErrorPrefix = "tacho executor: "

// The variables in an executor's environment that say whose task it is, see Owner.
const (
	envAllocID   = "TACHO_EXECUTOR_ALLOC_ID"
	envTask      = "TACHO_EXECUTOR_TASK"
	envPersisted = "TACHO_EXECUTOR_START_PERSISTED"
)

// Owner says whose task an executor is started for. The zero Owner is that of tacho run.
type Owner struct {
	// AllocID is the task's allocation and Task its name there.
	AllocID string `json:"alloc_id,omitempty"`
	Task    string `json:"task,omitempty"`
	// Persisted says that the caller has persisted the id before the start and comes back for the task: neither the
	// start nor the task ends with the caller.
	Persisted bool `json:"start_persisted,omitempty"`
}

// Environ returns the variables by which OwnerOf finds the owner.
func (o Owner) Environ() []string {
	if o == (Owner{}) {
		return nil
	}
	return []string{
		envAllocID + "=" + o.AllocID, envTask + "=" + o.Task, envPersisted + "=" + strconv.FormatBool(o.Persisted),
	}
}

// OwnerOf returns the owner that an environment names.
func OwnerOf(getenv func(string) string) Owner {
	persisted, _ := strconv.ParseBool(getenv(envPersisted)) // absent is false
	return Owner{AllocID: getenv(envAllocID), Task: getenv(envTask), Persisted: persisted}
}

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
