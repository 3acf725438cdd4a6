// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// Info says what a plugin is.
type Info struct {
	Name string
	// Version is a semantic version without a leading v.
	Version string
	// APIVersions are the versions of the plugin API that it speaks.
	APIVersions []string
}

// Served is a driver that takes its configuration from a host.
type Served interface {
	driver.Driver
	driver.Configurer
	// CoreMHz returns the mean speed of the machine's cores, 0 if it is not known: Nomad counts CPU use in MHz too.
	CoreMHz() float64
}

// Serve serves a driver to the host that started this process, until the host ends it. The logger writes JSON to
// the standard error of the process as it was started: hosts read their plugins' log there.
func Serve(info Info, served Served, logger hclog.Logger) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake(),
		Plugins:         plugins(info, served),
		GRPCServer:      goplugin.DefaultGRPCServer,
		Logger:          logger,
	})
}

// Register puts both services of a driver on a server of any kind.
func Register(server *grpc.Server, info Info, served Served) {
	registerBase(server, info, served)
	registerDriver(server, served)
}

func registerBase(server *grpc.Server, info Info, served Served) {
	base.RegisterBasePluginServer(server, &baseServer{info: info, driver: served})
}

func registerDriver(server *grpc.Server, served Served) {
	drivers.RegisterDriverServer(server, &driverServer{driver: served})
}

func plugins(info Info, served Served) goplugin.PluginSet {
	return goplugin.PluginSet{
		baseName:   &service{register: func(s *grpc.Server) { registerBase(s, info, served) }},
		driverName: &service{register: func(s *grpc.Server) { registerDriver(s, served) }},
	}
}

// service is one gRPC service as go-plugin wants it. On the host's side it hands out the bare connection: one
// carries both services.
type service struct {
	goplugin.NetRPCUnsupportedPlugin
	register func(*grpc.Server)
}

var errNotServed = errors.New("this side serves nothing")

// GRPCServer implements go-plugin's plugin.
func (s *service) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	if s.register == nil {
		return errNotServed
	}
	s.register(server)
	return nil
}

// GRPCClient implements go-plugin's plugin.
func (s *service) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
