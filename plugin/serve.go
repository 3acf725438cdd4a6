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
	"github.com/tachograph/tacho/plugin/proto/records"
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
		HandshakeConfig: Handshake(),
		Plugins:         goplugin.PluginSet{"driver": &service{info: info, driver: served}},
		GRPCServer:      goplugin.DefaultGRPCServer,
		Logger:          logger,
	})
}

// Register puts the services of a driver on a server of any kind.
func Register(server *grpc.Server, info Info, served Served) {
	base.RegisterBasePluginServer(server, &baseServer{info: info, driver: served})
	drivers.RegisterDriverServer(server, &driverServer{driver: served})
	if recorder, ok := served.(driver.Recorder); ok {
		records.RegisterRecordsServer(server, &recordsServer{driver: recorder})
	}
}

// service is all services as one plugin of go-plugin; hosts ask for them by the names of gRPC.
type service struct {
	goplugin.NetRPCUnsupportedPlugin
	info   Info
	driver Served
}

// GRPCServer implements go-plugin's plugin.
func (s *service) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	Register(server, s.info, s.driver)
	return nil
}

// GRPCClient implements go-plugin's plugin. The host's side is in package host.
func (*service) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.ErrUnsupported
}
