// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/plugin/wire"
)

// Remote is a driver behind a connection. Its methods are those of our driver, but for stats: they come in Nomad's
// form.
type Remote struct {
	base   base.BasePluginClient
	driver drivers.DriverClient
}

// NewRemote returns the driver at the other end of a connection.
func NewRemote(conn grpc.ClientConnInterface) *Remote {
	return &Remote{base: base.NewBasePluginClient(conn), driver: drivers.NewDriverClient(conn)}
}

// Info is what a plugin says of itself.
type Info struct {
	Name, Version string
	APIVersions   []string
}

// Info asks the plugin what it is. A plugin that is no driver, or of another API, is driver.ErrNotSupported.
func (r *Remote) Info(ctx context.Context) (Info, error) {
	m, err := r.base.PluginInfo(ctx, &base.PluginInfoRequest{})
	if err != nil {
		return Info{}, toError(err)
	}
	info := Info{Name: m.GetName(), Version: m.GetPluginVersion(), APIVersions: m.GetPluginApiVersions()}
	if m.GetType() != base.PluginType_DRIVER {
		return info, fmt.Errorf("plugin %q is of type %s: %w", info.Name, m.GetType(), driver.ErrNotSupported)
	}
	if !slices.Contains(info.APIVersions, plugin.APIVersion) {
		return info, fmt.Errorf("plugin %q has versions %q of the plugin API, not %s: %w",
			info.Name, info.APIVersions, plugin.APIVersion, driver.ErrNotSupported)
	}
	return info, nil
}

// ConfigSchema asks for the shape of the plugin's own configuration; nil if it takes none.
func (r *Remote) ConfigSchema(ctx context.Context) (*hclspec.Spec, error) {
	m, err := r.base.ConfigSchema(ctx, &base.ConfigSchemaRequest{})
	return m.GetSpec(), toError(err)
}

// TaskConfigSchema asks for the shape of a task's config block.
func (r *Remote) TaskConfigSchema(ctx context.Context) (*hclspec.Spec, error) {
	m, err := r.driver.TaskConfigSchema(ctx, &drivers.TaskConfigSchemaRequest{})
	return m.GetSpec(), toError(err)
}

// SetConfig configures the plugin. topology is what it is told of the machine; nil for nothing.
func (r *Remote) SetConfig(ctx context.Context, msgpack []byte, topology *base.ClientTopology) error {
	_, err := r.base.SetConfig(ctx, &base.SetConfigRequest{
		MsgpackConfig: msgpack, PluginApiVersion: plugin.APIVersion,
		NomadConfig: &base.NomadConfig{Driver: &base.NomadDriverConfig{Topology: topology}},
	})
	return toError(err)
}

// Topology describes cores of one socket and one NUMA node. Some drivers do not run without a topology.
func Topology(cores []int, coreMHz float64) *base.ClientTopology {
	t := &base.ClientTopology{NodeIds: []uint32{0}, Distances: &base.ClientTopologySLIT{Dimension: 1, Values: []uint32{10}}}
	for _, id := range cores {
		t.Cores = append(t.Cores, &base.ClientTopologyCore{CoreId: uint32(id), GuessSpeed: uint64(coreMHz)})
	}
	return t
}

// Init prepares the driver. Drivers of before there was this call do without it.
func (r *Remote) Init(ctx context.Context) error {
	_, err := r.driver.Init(ctx, &drivers.InitRequest{})
	if err = toError(err); errors.Is(err, driver.ErrNotSupported) {
		return nil
	}
	return err
}

// Capabilities implements suite.Driver.
func (r *Remote) Capabilities(ctx context.Context) (*drivers.DriverCapabilities, error) {
	m, err := r.driver.Capabilities(ctx, &drivers.CapabilitiesRequest{})
	return m.GetCapabilities(), toError(err)
}

// Fingerprint implements suite.Driver.
func (r *Remote) Fingerprint(ctx context.Context) (driver.Stream[*driver.Fingerprint], error) {
	stream, err := r.driver.Fingerprint(ctx, &drivers.FingerprintRequest{})
	return receive(stream, err, toFingerprint)
}

// TaskEvents implements suite.Driver.
func (r *Remote) TaskEvents(ctx context.Context) (driver.Stream[*driver.Event], error) {
	stream, err := r.driver.TaskEvents(ctx, &drivers.TaskEventsRequest{})
	return receive(stream, err, wire.Convert[driver.Event, drivers.DriverTaskEvent])
}

// NomadStats returns the stream of a task's stats. A rejection comes with the first Recv.
func (r *Remote) NomadStats(
	ctx context.Context, id string, interval time.Duration,
) (driver.Stream[*drivers.TaskStats], error) {
	stream, err := r.driver.TaskStats(ctx, &drivers.TaskStatsRequest{
		TaskId: id, CollectionInterval: durationpb.New(interval),
	})
	return receive(stream, err, (*drivers.TaskStatsResponse).GetStats)
}

// receive returns a stream of messages M as a stream of what they mean.
func receive[M, T any](stream grpc.ServerStreamingClient[M], err error, convert func(*M) T) (driver.Stream[T], error) {
	if err != nil {
		return nil, toError(err)
	}
	return &received[M, T]{stream, convert}, nil
}

type received[M, T any] struct {
	stream  grpc.ServerStreamingClient[M]
	convert func(*M) T
}

// Recv implements driver.Stream.
func (s *received[M, T]) Recv() (T, error) {
	var none T
	m, err := s.stream.Recv()
	if errors.Is(err, io.EOF) {
		return none, io.EOF
	}
	if err != nil {
		return none, toError(err)
	}
	return s.convert(m), nil
}

// StartTask implements suite.Driver.
func (r *Remote) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, error) {
	request := wire.Convert[drivers.TaskConfig](task)
	if linux := request.GetResources().GetLinuxResources(); linux != nil { // some drivers do not start without
		request.Resources.AllocatedResources = &drivers.AllocatedTaskResources{
			Cpu:    &drivers.AllocatedCpuResources{CpuShares: linux.GetCpuShares()},
			Memory: &drivers.AllocatedMemoryResources{MemoryMb: linux.GetMemoryLimitBytes() >> 20},
		}
	}
	m, err := r.driver.StartTask(ctx, &drivers.StartTaskRequest{Task: request})
	if err != nil {
		return nil, toError(err)
	}
	switch m.GetResult() {
	case drivers.StartTaskResponse_RETRY:
		return nil, driver.Recoverable(errors.New(m.GetDriverErrorMsg()), true)
	case drivers.StartTaskResponse_FATAL:
		return nil, driver.Recoverable(errors.New(m.GetDriverErrorMsg()), false)
	}
	handle := wire.Convert[driver.TaskHandle](m.GetHandle())
	if handle == nil {
		return nil, errors.New("the driver started the task without a handle")
	}
	if handle.Config == nil {
		handle.Config = task
	}
	return handle, nil
}

// RecoverTask implements suite.Driver.
func (r *Remote) RecoverTask(ctx context.Context, handle *driver.TaskHandle) error {
	_, err := r.driver.RecoverTask(ctx, &drivers.RecoverTaskRequest{
		TaskId: handle.Config.ID, Handle: wire.Convert[drivers.TaskHandle](handle),
	})
	return toError(err)
}

// WaitTask implements suite.Driver.
func (r *Remote) WaitTask(ctx context.Context, id string) (*driver.ExitResult, error) {
	m, err := r.driver.WaitTask(ctx, &drivers.WaitTaskRequest{TaskId: id})
	if err != nil {
		return nil, toError(err)
	}
	return toWait(m), nil
}

// StopTask implements suite.Driver.
func (r *Remote) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	_, err := r.driver.StopTask(ctx, &drivers.StopTaskRequest{
		TaskId: id, Timeout: durationpb.New(timeout), Signal: signal,
	})
	return toError(err)
}

// DestroyTask implements suite.Driver.
func (r *Remote) DestroyTask(ctx context.Context, id string, force bool) error {
	_, err := r.driver.DestroyTask(ctx, &drivers.DestroyTaskRequest{TaskId: id, Force: force})
	return toError(err)
}

// InspectTask implements suite.Driver.
func (r *Remote) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	m, err := r.driver.InspectTask(ctx, &drivers.InspectTaskRequest{TaskId: id})
	if err != nil {
		return nil, toError(err)
	}
	return toTaskStatus(m), nil
}

// SignalTask implements suite.Driver.
func (r *Remote) SignalTask(ctx context.Context, id, signal string) error {
	_, err := r.driver.SignalTask(ctx, &drivers.SignalTaskRequest{TaskId: id, Signal: signal})
	return toError(err)
}

// ExecTask implements suite.Driver.
func (r *Remote) ExecTask(
	ctx context.Context, id string, command []string, timeout time.Duration,
) (*driver.ExecResult, error) {
	m, err := r.driver.ExecTask(ctx, &drivers.ExecTaskRequest{
		TaskId: id, Command: command, Timeout: durationpb.New(timeout),
	})
	if err != nil {
		return nil, toError(err)
	}
	result := &driver.ExecResult{Output: append(m.GetStdout(), m.GetStderr()...)}
	if exit := toExitResult(m.GetResult()); exit != nil {
		result.Exit = *exit
	}
	return result, nil
}
