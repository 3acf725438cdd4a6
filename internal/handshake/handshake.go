// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package handshake is an executor's side of go-plugin, for gRPC: a process that was started with a cookie prints where
// it listens, and serves there until it is told to stop. A task pays for its executor, which needs none of what
// go-plugin's own server adds: reflection, a broker, and pipes for copied output.
package handshake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	// SocketDir is the variable in a plugin's environment that has the directory for its socket.
	SocketDir = "PLUGIN_UNIX_SOCKET_DIR"
	// SocketPrefix begins the socket's name there.
	SocketPrefix = "plugin"
	// CoreProtocol is the version of what a plugin prints.
	CoreProtocol = 1
	// clientCertificate is the variable by which a host asks for TLS.
	clientCertificate = "PLUGIN_CLIENT_CERT"
)

// Config is how a host and its plugin recognise each other; go-plugin's type of the same name has the same fields.
type Config struct {
	ProtocolVersion uint
	// The cookie is no secret: it tells a user who starts a plugin by hand that it is one.
	MagicCookieKey, MagicCookieValue string
}

// Requested reports whether a host started this process as its plugin.
func (c Config) Requested() bool { return os.Getenv(c.MagicCookieKey) == c.MagicCookieValue }

// Listen returns the socket of this plugin, which is removed when it is closed.
func (c Config) Listen() (net.Listener, error) {
	if !c.Requested() {
		return nil, errors.New("it is for other processes to start, not for people")
	}
	if os.Getenv(clientCertificate) != "" {
		return nil, errors.New("TLS between a host and its plugin is not supported")
	}
	dir := os.Getenv(SocketDir)
	if dir == "" {
		dir = os.TempDir()
	}
	path := filepath.Join(dir, SocketPrefix+strconv.FormatUint(uint64(rand.Uint32()), 10))
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("create socket: %w", err)
	}
	return listener, nil
}

// Serve prints the address and serves until the server is stopped, by this process or by its host.
func (c Config) Serve(server *grpc.Server, listener net.Listener) error {
	healthy := health.NewServer()
	healthy.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthy)
	// Shutdown stops the server at once: the connection of this very call would outlast a graceful stop.
	shutdown := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		defer server.Stop()
		empty := &emptypb.Empty{}
		return empty, decode(empty)
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: shutdown}},
	}, server)
	_, err := fmt.Fprintf(os.Stdout, "%d|%d|unix|%s|grpc|\n", CoreProtocol, c.ProtocolVersion, listener.Addr())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return server.Serve(listener)
}
