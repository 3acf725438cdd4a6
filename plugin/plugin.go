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
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
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

// baseServer serves what every plugin has, whatever its type.
type baseServer struct {
	base.UnimplementedBasePluginServer
	version string
	driver  *driver.Tacho
}

func (s *baseServer) PluginInfo(context.Context, *base.PluginInfoRequest) (*base.PluginInfoResponse, error) {
	return &base.PluginInfoResponse{
		Type:              base.PluginType_DRIVER,
		PluginApiVersions: []string{APIVersion},
		PluginVersion:     s.version,
		Name:              driver.Name,
	}, nil
}

func (s *baseServer) ConfigSchema(
	context.Context, *base.ConfigSchemaRequest,
) (*base.ConfigSchemaResponse, error) {
	return &base.ConfigSchemaResponse{Spec: wire.FromSchema(driver.ConfigSchema())}, nil
}

func (s *baseServer) SetConfig(ctx context.Context, req *base.SetConfigRequest) (*base.SetConfigResponse, error) {
	// A host that negotiates nothing is one of the first version.
	if v := req.GetPluginApiVersion(); v != "" && v != APIVersion {
		return nil, wire.Status(fmt.Errorf("plugin API %q, this plugin speaks %s: %w", v, APIVersion, driver.ErrInvalid))
	}
	coreMHz := wire.CoreMHz(req.GetNomadConfig().GetDriver().GetTopology())
	return answer(&base.SetConfigResponse{}, s.driver.SetConfig(ctx, req.GetMsgpackConfig(), coreMHz))
}

// driverServer serves a driver to a host.
type driverServer struct {
	drivers.UnimplementedDriverServer
	driver *driver.Tacho
}

// Init is called by newer hosts before anything else; there is nothing to prepare.
func (s *driverServer) Init(context.Context, *drivers.InitRequest) (*drivers.InitResponse, error) {
	return &drivers.InitResponse{}, nil
}

// Shutdown is called by newer hosts before they end the process. Tasks run on, so there is nothing to do.
func (s *driverServer) Shutdown(context.Context, *drivers.ShutdownRequest) (*drivers.ShutdownResponse, error) {
	return &drivers.ShutdownResponse{}, nil
}

func (s *driverServer) TaskConfigSchema(
	context.Context, *drivers.TaskConfigSchemaRequest,
) (*drivers.TaskConfigSchemaResponse, error) {
	return &drivers.TaskConfigSchemaResponse{Spec: wire.FromSchema(driver.TaskSchema())}, nil
}

func (s *driverServer) Capabilities(
	context.Context, *drivers.CapabilitiesRequest,
) (*drivers.CapabilitiesResponse, error) {
	return &drivers.CapabilitiesResponse{Capabilities: wire.Capabilities(s.driver.CollectsLogs())}, nil
}

func (s *driverServer) Fingerprint(_ *drivers.FingerprintRequest, out drivers.Driver_FingerprintServer) error {
	stream, err := s.driver.Fingerprint(out.Context())
	return relay(stream, err, func(f *driver.Fingerprint) error { return out.Send(wire.FromFingerprint(f)) })
}

func (s *driverServer) TaskEvents(_ *drivers.TaskEventsRequest, out drivers.Driver_TaskEventsServer) error {
	stream, err := s.driver.TaskEvents(out.Context())
	return relay(stream, err, func(e *driver.Event) error { return out.Send(wire.FromEvent(e)) })
}

func (s *driverServer) TaskStats(req *drivers.TaskStatsRequest, out drivers.Driver_TaskStatsServer) error {
	interval, err := toDuration("collection_interval", req.GetCollectionInterval())
	if err != nil {
		return err
	}
	stream, err := s.driver.TaskStats(out.Context(), req.GetTaskId(), interval)
	if err != nil {
		return wire.Status(err)
	}
	before := stream.Baseline()
	return relay(stream, nil, func(sample *procstats.Sample) error {
		stats := wire.TaskStats(req.GetTaskId(), sample, before, s.driver.CoreMHz())
		before = sample
		return out.Send(&drivers.TaskStatsResponse{Stats: stats})
	})
}

// relay sends on what comes until the stream ends. err is why there is no stream; nil if there is one.
func relay[T any](stream driver.Stream[T], err error, send func(T) error) error {
	for err == nil {
		var message T
		if message, err = stream.Recv(); err == nil {
			if err := send(message); err != nil {
				return err
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return wire.Status(err)
}

func (s *driverServer) RecoverTask(
	ctx context.Context, req *drivers.RecoverTaskRequest,
) (*drivers.RecoverTaskResponse, error) {
	handle := wire.Convert[driver.TaskHandle](req.GetHandle())
	if handle == nil || handle.Config == nil {
		return nil, wire.Status(fmt.Errorf("recover: no handle with a task in the request: %w", driver.ErrInvalid))
	}
	return answer(&drivers.RecoverTaskResponse{}, s.driver.RecoverTask(ctx, handle))
}

func (s *driverServer) StartTask(
	ctx context.Context, req *drivers.StartTaskRequest,
) (*drivers.StartTaskResponse, error) {
	task := wire.Convert[driver.TaskConfig](req.GetTask())
	if task == nil {
		return nil, wire.Status(fmt.Errorf("start: no task in the request: %w", driver.ErrInvalid))
	}
	if task.Env == nil {
		task.Env = make(map[string]string)
	}
	driver.SetUser(task.Env, task.User) // the host gives tasks of all users its own variables
	handle, err := s.driver.StartTask(ctx, task)
	m := &drivers.StartTaskResponse{
		Result: drivers.StartTaskResponse_SUCCESS, Handle: wire.Convert[drivers.TaskHandle](handle),
	}
	if handle != nil {
		m.Handle.Config = req.GetTask() // with what this driver does not know
	}
	return answer(m, err)
}

func (s *driverServer) WaitTask(ctx context.Context, req *drivers.WaitTaskRequest) (*drivers.WaitTaskResponse, error) {
	result, err := s.driver.WaitTask(ctx, req.GetTaskId())
	return answer(wire.FromWait(result), err)
}

func (s *driverServer) StopTask(ctx context.Context, req *drivers.StopTaskRequest) (*drivers.StopTaskResponse, error) {
	timeout, err := toDuration("timeout", req.GetTimeout())
	if err != nil {
		return nil, err
	}
	return answer(&drivers.StopTaskResponse{}, s.driver.StopTask(ctx, req.GetTaskId(), timeout, req.GetSignal()))
}

func (s *driverServer) DestroyTask(
	ctx context.Context, req *drivers.DestroyTaskRequest,
) (*drivers.DestroyTaskResponse, error) {
	return answer(&drivers.DestroyTaskResponse{}, s.driver.DestroyTask(ctx, req.GetTaskId(), req.GetForce()))
}

func (s *driverServer) InspectTask(
	ctx context.Context, req *drivers.InspectTaskRequest,
) (*drivers.InspectTaskResponse, error) {
	taskStatus, err := s.driver.InspectTask(ctx, req.GetTaskId())
	return answer(wire.FromTaskStatus(taskStatus), err)
}

func (s *driverServer) SignalTask(
	ctx context.Context, req *drivers.SignalTaskRequest,
) (*drivers.SignalTaskResponse, error) {
	return answer(&drivers.SignalTaskResponse{}, s.driver.SignalTask(ctx, req.GetTaskId(), req.GetSignal()))
}

// answer returns an answer, or the status that stands for an error.
func answer[T any](m *T, err error) (*T, error) {
	if err != nil {
		return nil, wire.Status(err)
	}
	return m, nil
}

// toDuration reads a duration; a missing one is 0. Negative and malformed ones are rejected.
func toDuration(field string, m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	if err := m.CheckValid(); err != nil {
		return 0, wire.Status(fmt.Errorf("%s: %w: %w", field, err, driver.ErrInvalid))
	}
	d := m.AsDuration()
	if d < 0 {
		return 0, wire.Status(fmt.Errorf("%s %s is negative: %w", field, d, driver.ErrInvalid))
	}
	return d, nil
}

func (s *driverServer) ExecTask(ctx context.Context, req *drivers.ExecTaskRequest) (*drivers.ExecTaskResponse, error) {
	timeout, err := toDuration("timeout", req.GetTimeout())
	if err != nil {
		return nil, err
	}
	result, err := s.driver.ExecTask(ctx, req.GetTaskId(), req.GetCommand(), timeout)
	if err != nil {
		return nil, wire.Status(err)
	}
	return &drivers.ExecTaskResponse{
		Stdout: result.Output,
		Result: wire.Convert[drivers.ExitResult](&result.Exit),
	}, nil
}

// ExecTaskStreaming runs a command and relays its streams both ways until it has ended.
func (s *driverServer) ExecTaskStreaming(client drivers.Driver_ExecTaskStreamingServer) error {
	first, err := client.Recv()
	if err != nil {
		return err
	}
	setup := first.GetSetup()
	if setup == nil {
		return wire.Status(fmt.Errorf("exec: the first message has no setup: %w", driver.ErrInvalid))
	}
	// What the client sends is read beside this function and ends with it: gRPC cancels the stream's context, and
	// with it client.Recv, when it returns. A failed input ends the command.
	ctx, cancel := context.WithCancelCause(client.Context())
	defer cancel(nil)
	stream, err := s.driver.ExecTaskStreaming(ctx, setup.GetTaskId(),
		driver.ExecOptions{Command: setup.GetCommand(), TTY: setup.GetTty()})
	if err != nil {
		return wire.Status(err)
	}
	if err := passInput(stream, first); err != nil {
		return wire.Status(err)
	}
	go func() {
		if err := passInputs(stream, client); err != nil {
			cancel(err)
		}
	}()
	return passOutput(ctx, stream, client)
}

// passInputs relays input until the client has no more, which is the end of the command's input too.
func passInputs(stream driver.ExecStream, client drivers.Driver_ExecTaskStreamingServer) error {
	for {
		message, err := client.Recv()
		if errors.Is(err, io.EOF) {
			return closeInput(stream)
		}
		if err != nil {
			return err
		}
		if err := passInput(stream, message); err != nil {
			return err
		}
	}
}

// closeInput ends the command's input; that the command has ended is no error.
func closeInput(stream driver.ExecStream) error {
	if err := stream.CloseWrite(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("close stdin: %w", err)
	}
	return nil
}

func passInput(stream driver.ExecStream, m *drivers.ExecTaskStreamingRequest) error {
	if size := m.GetTtySize(); size != nil {
		rows, columns := int(size.GetHeight()), int(size.GetWidth())
		if rows < 0 || columns < 0 || rows > 1<<16-1 || columns > 1<<16-1 {
			return fmt.Errorf("terminal size %d × %d: %w", rows, columns, driver.ErrInvalid)
		}
		if err := stream.Resize(driver.TerminalSize{Rows: rows, Columns: columns}); err != nil {
			return fmt.Errorf("resize: %w", err)
		}
	}
	if data := m.GetStdin().GetData(); len(data) > 0 {
		if _, err := stream.Write(data); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("write stdin: %w", err)
		}
	}
	if m.GetStdin().GetClose() {
		return closeInput(stream)
	}
	return nil
}

func passOutput(ctx context.Context, stream driver.ExecStream, client drivers.Driver_ExecTaskStreamingServer) error {
	for {
		output, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return wire.Status(err)
		}
		if err := client.Send(fromOutput(output)); err != nil {
			return err
		}
	}
}

func fromOutput(output driver.ExecOutput) *drivers.ExecTaskStreamingResponse {
	m := &drivers.ExecTaskStreamingResponse{
		Exited: output.Exit != nil,
		Result: wire.Convert[drivers.ExitResult](output.Exit),
	}
	if len(output.Stdout) > 0 {
		m.Stdout = &drivers.ExecTaskStreamingIOOperation{Data: output.Stdout}
	}
	if len(output.Stderr) > 0 {
		m.Stderr = &drivers.ExecTaskStreamingIOOperation{Data: output.Stderr}
	}
	return m
}
