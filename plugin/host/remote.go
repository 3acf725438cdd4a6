// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

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
	"github.com/tachograph/tacho/driver/schema"
	"github.com/tachograph/tacho/plugin"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/records"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

// Remote is a driver behind a connection. Its methods are those of driver.Driver, driver.Configurer and driver.Recorder.
type Remote struct {
	base   base.BasePluginClient
	driver drivers.DriverClient
	// records is of our own; others do not serve it.
	records records.RecordsClient
	// cgroups are those of the tasks that are started through it; nil to make none.
	cgroups *taskCgroups
}

// NewRemote returns the driver at the other end of a connection.
func NewRemote(conn grpc.ClientConnInterface) *Remote {
	return &Remote{base: base.NewBasePluginClient(conn), driver: drivers.NewDriverClient(conn), records: records.NewRecordsClient(conn)}
}

var (
	_ driver.Driver     = (*Remote)(nil)
	_ driver.Configurer = (*Remote)(nil)
	_ driver.Networker  = (*Remote)(nil)
	_ driver.Recorder   = (*Remote)(nil)
)

// Info asks the plugin what it is. A plugin that is no driver, or of another API, is driver.ErrNotSupported.
func (r *Remote) Info(ctx context.Context) (plugin.Info, error) {
	m, err := r.base.PluginInfo(ctx, &base.PluginInfoRequest{})
	if err != nil {
		return plugin.Info{}, wire.Error(err)
	}
	info := plugin.Info{Name: m.GetName(), Version: m.GetPluginVersion(), APIVersions: m.GetPluginApiVersions()}
	if m.GetType() != base.PluginType_DRIVER {
		return info, fmt.Errorf("plugin %q is of type %s: %w", info.Name, m.GetType(), driver.ErrNotSupported)
	}
	if !slices.Contains(info.APIVersions, plugin.APIVersion) {
		return info, fmt.Errorf("plugin %q has versions %q of the plugin API, not %s: %w",
			info.Name, info.APIVersions, plugin.APIVersion, driver.ErrNotSupported)
	}
	return info, nil
}

// ConfigSchema asks for the shape of the plugin's own configuration.
func (r *Remote) ConfigSchema(ctx context.Context) (schema.Spec, error) {
	m, err := r.base.ConfigSchema(ctx, &base.ConfigSchemaRequest{})
	if err != nil {
		return nil, wire.Error(err)
	}
	return wire.ToSchema(m.GetSpec())
}

// SetConfig configures the plugin.
func (r *Remote) SetConfig(ctx context.Context, msgpack []byte, node *driver.Node) error {
	_, err := r.base.SetConfig(ctx, &base.SetConfigRequest{
		MsgpackConfig: msgpack, NomadConfig: wire.FromNode(node), PluginApiVersion: plugin.APIVersion,
	})
	return wire.Error(err)
}

// Init prepares the driver. Drivers of before there was this call do without it.
func (r *Remote) Init(ctx context.Context) error {
	_, err := r.driver.Init(ctx, &drivers.InitRequest{})
	if err = wire.Error(err); errors.Is(err, driver.ErrNotSupported) {
		return nil
	}
	return err
}

// TaskConfigSchema implements driver.Describer.
func (r *Remote) TaskConfigSchema(ctx context.Context) (schema.Spec, error) {
	m, err := r.driver.TaskConfigSchema(ctx, &drivers.TaskConfigSchemaRequest{})
	if err != nil {
		return nil, wire.Error(err)
	}
	return wire.ToSchema(m.GetSpec())
}

// Capabilities implements driver.Describer.
func (r *Remote) Capabilities(ctx context.Context) (*driver.Capabilities, error) {
	m, err := r.driver.Capabilities(ctx, &drivers.CapabilitiesRequest{})
	if err != nil {
		return nil, wire.Error(err)
	}
	return wire.ToCapabilities(m.GetCapabilities()), nil
}

// Fingerprint implements driver.Describer.
func (r *Remote) Fingerprint(ctx context.Context) (driver.Stream[*driver.Fingerprint], error) {
	stream, err := r.driver.Fingerprint(ctx, &drivers.FingerprintRequest{})
	if err != nil {
		return nil, wire.Error(err)
	}
	return &received[drivers.FingerprintResponse, *driver.Fingerprint]{
		stream,
		func(m *drivers.FingerprintResponse) (*driver.Fingerprint, error) { return wire.ToFingerprint(m), nil },
	}, nil
}

// TaskEvents implements driver.Observer.
func (r *Remote) TaskEvents(ctx context.Context) (driver.Stream[*driver.Event], error) {
	stream, err := r.driver.TaskEvents(ctx, &drivers.TaskEventsRequest{})
	if err != nil {
		return nil, wire.Error(err)
	}
	return &received[drivers.DriverTaskEvent, *driver.Event]{
		stream,
		func(m *drivers.DriverTaskEvent) (*driver.Event, error) { return wire.ToEvent(m), nil },
	}, nil
}

// TaskStats implements driver.Observer. What the driver has against it comes with the first Recv.
func (r *Remote) TaskStats(ctx context.Context, id string, interval time.Duration) (driver.StatsStream, error) {
	stream, err := r.taskStats(ctx, &drivers.TaskStatsRequest{TaskId: id, CollectionInterval: durationpb.New(interval), TachoSample: true})
	if err != nil {
		return nil, err
	}
	return samples{stream}, nil
}

// NomadStats returns the stream of a task's stats as Nomad gets it on the wire.
func (r *Remote) NomadStats(ctx context.Context, id string, interval time.Duration) (driver.Stream[*drivers.TaskStats], error) {
	return r.taskStats(ctx, &drivers.TaskStatsRequest{TaskId: id, CollectionInterval: durationpb.New(interval)})
}

func (r *Remote) taskStats(ctx context.Context, request *drivers.TaskStatsRequest) (driver.Stream[*drivers.TaskStats], error) {
	stream, err := r.driver.TaskStats(ctx, request)
	if err != nil {
		return nil, wire.Error(err)
	}
	return &received[drivers.TaskStatsResponse, *drivers.TaskStats]{
		stream,
		func(m *drivers.TaskStatsResponse) (*drivers.TaskStats, error) { return m.GetStats(), nil },
	}, nil
}

// samples is a stream of stats as a stream of the samples in them.
type samples struct {
	stats driver.Stream[*drivers.TaskStats]
}

// Recv implements driver.Stream.
func (s samples) Recv() (*procstats.Sample, error) {
	stats, err := s.stats.Recv()
	if err != nil {
		return nil, err
	}
	return ToSample(stats)
}

// Baseline implements driver.StatsStream: the wire has none.
func (samples) Baseline() *procstats.Sample { return nil }

// received is a stream of messages M as a stream of what they mean.
type received[M, T any] struct {
	stream  grpc.ServerStreamingClient[M]
	convert func(*M) (T, error)
}

func (s *received[M, T]) Recv() (T, error) {
	var none T
	m, err := s.stream.Recv()
	if errors.Is(err, io.EOF) {
		return none, io.EOF
	}
	if err != nil {
		return none, wire.Error(err)
	}
	return s.convert(m)
}
