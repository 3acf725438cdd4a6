// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package plugin makes this process a task-driver plugin: it serves our driver to the host that started it, over the
// wire of Nomad's plugins.
//
//	first    PluginInfo, ConfigSchema          (the host may end the process here)
//	then     SetConfig, TaskConfigSchema, Capabilities, Fingerprint and TaskEvents (kept open)
//	for ever StartTask … DestroyTask
//
// Conversions are in package wire.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// The hosts' handshake. The cookie is no secret: it tells a user who starts a plugin by hand that it is one.
const (
	CookieKey       = "NOMAD_PLUGIN_MAGIC_COOKIE"
	CookieValue     = "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
	protocolVersion = 2
	// APIVersion is the version of the plugin API that we speak.
	APIVersion = "v0.1.0"
)

// Requested reports whether a host started this process as its plugin.
func Requested() bool { return os.Getenv(CookieKey) == CookieValue }

// Handshake is how a host and its plugins recognise each other.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  protocolVersion,
		MagicCookieKey:   CookieKey,
		MagicCookieValue: CookieValue,
	}
}

// Main is the plugin process: it serves our own driver to the host that started it. It returns the exit code when
// the host is done with it; tasks run on.
func Main(version string) int {
	// The host's end of standard error breaks when the host is killed, and a plugin that logs something then must
	// live: a later host reattaches to it. A signal that is notified does not kill, and is not inherited by children as
	// an ignored one would be.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	// Hosts read their plugins' log from standard error, as JSON.
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr, JSONFormat: true})
	tacho := driver.New(driver.Options{Config: driver.DefaultConfig(), Version: version, Remote: true, Logger: logger})
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         goplugin.PluginSet{"driver": &service{version: version, driver: tacho}},
		GRPCServer:      goplugin.DefaultGRPCServer,
		Logger:          logger,
	})
	if err := tacho.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "tacho plugin:", err)
		return 1
	}
	return 0
}

// service is both services as one plugin of go-plugin; hosts ask for them by the names of gRPC.
type service struct {
	goplugin.NetRPCUnsupportedPlugin
	version string
	driver  *driver.Tacho
}

// GRPCServer implements go-plugin's plugin.
func (s *service) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	base.RegisterBasePluginServer(server, &baseServer{version: s.version, driver: s.driver})
	drivers.RegisterDriverServer(server, &driverServer{driver: s.driver})
	return nil
}

// GRPCClient implements go-plugin's plugin. It is the host's side.
func (*service) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.ErrUnsupported
}
