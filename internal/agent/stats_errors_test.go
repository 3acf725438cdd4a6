// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/plugin/host"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

// TestStatsErrors is the table of what a driver's errors mean to the stats hook, however they arrive: from a driver in
// this process, over gRPC from a plugin of ours, over gRPC from another's; at the opening and at the first receive.
func TestStatsErrors(t *testing.T) {
	const (
		ends    = "ends, debug"    // collection ends quietly
		retries = "retries, debug" // ordinary
		fails   = "retries, error" // logged at error level once
	)
	plain := errors.New("it broke")
	tests := []struct {
		name    string
		local   error // nil if a driver in process has no such error
		foreign error // what another's plugin sends for it; nil if it has no such error
		want    string
		is      error // what the hook's Err is; nil for any
	}{
		{"no stats", driver.ErrStatsNotImplemented, status.Error(codes.Unknown, "stats not implemented for driver"), ends, hook.ErrStatsNotImplemented},
		{"no such call", fmt.Errorf("stats: %w", driver.ErrNotSupported), status.Error(codes.Unimplemented, "unknown method TaskStats"), ends, hook.ErrStatsNotImplemented},
		{"no stats, wrapped", fmt.Errorf("task 1: %w", driver.ErrStatsNotImplemented), status.Error(codes.Unknown, "rpc error: code = Unknown desc = stats not implemented for driver"), ends, hook.ErrStatsNotImplemented},
		{"no such service", nil, status.Error(codes.Unimplemented, "unknown service drivers.Driver"), ends, hook.ErrStatsNotImplemented},
		{"unknown task", driver.ErrTaskNotFound, status.Error(codes.Unknown, "task not found for given id"), ends, nil},
		{"unrecoverable", driver.Recoverable(plain, false), wire.Status(driver.Recoverable(plain, false)), ends, nil},
		{"unrecoverable, wrapped", fmt.Errorf("task 1: %w", driver.Recoverable(plain, false)), nil, ends, nil},
		{"recoverable", driver.Recoverable(plain, true), wire.Status(driver.Recoverable(plain, true)), fails, nil},
		{"plugin is gone", driver.ErrUnavailable, status.Error(codes.Unavailable, "connection refused"), retries, hook.ErrPluginRestarting},
		{"plugin is shut down", errors.New("plugin is shut down"), status.Error(codes.Unknown, "rpc error: plugin is shut down"), retries, nil},
		{"plugin is shut down, wrapped", fmt.Errorf("task 1: %w", errors.New("plugin is shut down")), nil, retries, nil},
		{"task has ended", driver.ErrTaskNotRunning, status.Error(codes.Unknown, "task is not running"), retries, hook.ErrNotRunning},
		{"end of stream", io.EOF, nil, retries, io.EOF},
		{"invalid request", driver.ErrInvalid, status.Error(codes.InvalidArgument, "interval"), fails, nil},
		{"late", context.DeadlineExceeded, status.Error(codes.DeadlineExceeded, "late"), fails, nil},
		{"cancelled by the driver", context.Canceled, status.Error(codes.Canceled, "canceled"), fails, nil},
		{"cut off", io.ErrUnexpectedEOF, status.Error(codes.Internal, "unexpected EOF"), fails, nil},
		{"too large", nil, status.Error(codes.ResourceExhausted, "message larger than max"), fails, nil},
		{"not permitted", nil, status.Error(codes.PermissionDenied, "no"), fails, nil},
		{"internal", nil, status.Error(codes.Internal, "it broke"), fails, nil},
		{"anything else", plain, status.Error(codes.Unknown, "it broke"), fails, nil},
	}
	for _, test := range tests {
		ways := map[string]error{}
		if test.local != nil {
			ways["in process"] = test.local
			ways["gRPC, ours"] = overGRPC(t, wire.Status(test.local))
		}
		if test.foreign != nil {
			ways["gRPC, foreign"] = overGRPC(t, test.foreign)
		}
		if test.local == io.EOF { //nolint:errorlint // a stream's end is no status
			ways["gRPC, ours"] = overGRPC(t, nil)
		}
		for way, err := range ways {
			for _, place := range []string{"at open", "at first receive"} {
				t.Run(test.name+"/"+way+"/"+place, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						o := &failing{err: err, atOpen: place == "at open"}
						got, last := collect(t, o)
						if got != test.want {
							t.Errorf("%v (%T): %s, want %s", err, err, got, test.want)
						}
						if last == nil || test.is != nil && !errors.Is(last, test.is) {
							t.Errorf("Err = %v, want %v", last, test.is)
						}
					})
				})
			}
		}
	}
}

// collect runs a stats hook for a minute and returns whether it has retried, at which level it has logged, and its Err.
func collect(t *testing.T, o *failing) (outcome string, last error) {
	t.Helper()
	var log levels
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Debug, Output: io.Discard})
	logger.RegisterSink(&log)
	h := hook.NewStatsHook(hook.StatsConfig{Publish: true, Logger: logger})
	_ = h.Poststart(t.Context(), &hook.PoststartRequest{Stats: o})
	<-time.After(time.Minute)
	synctest.Wait()
	last = h.Err()
	if err := h.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	outcome = "ends, "
	if o.opened > 10 {
		outcome = "retries, "
	} else if o.opened != 1 {
		t.Errorf("%d openings in a minute", o.opened)
	}
	if n := log[hclog.Error]; n > 1 || log[hclog.Info]+log[hclog.Warn] > 0 || log[hclog.Debug] == 0 && n == 0 {
		t.Errorf("lines by level: %v", log)
	}
	if log[hclog.Error] > 0 {
		return outcome + "error", last
	}
	return outcome + "debug", last
}

// levels counts log lines by level.
type levels [hclog.Error + 1]int

// Accept implements hclog.SinkAdapter.
func (l *levels) Accept(_ string, level hclog.Level, _ string, _ ...any) { l[level]++ }

// failing is a handle whose driver returns an error.
type failing struct {
	err    error
	atOpen bool
	opened int
}

func (f *failing) OpenStats(context.Context, time.Duration) (hook.StatsStream, error) {
	f.opened++
	if f.atOpen {
		return nil, forStats(f.err)
	}
	return f, nil
}

func (f *failing) Recv() (*procstats.Sample, error) { return nil, forStats(f.err) }

// overGRPC returns what the client of a plugin gets when the server ends the call for stats with an error.
func overGRPC(t *testing.T, sent error) error {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	drivers.RegisterDriverServer(server, &failingServer{err: sent})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := host.NewRemote(conn).TaskStats(t.Context(), "id", time.Second)
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		t.Fatalf("%v did not arrive", sent)
	}
	return err
}

type failingServer struct {
	drivers.UnimplementedDriverServer
	err error
}

func (s *failingServer) TaskStats(*drivers.TaskStatsRequest, grpc.ServerStreamingServer[drivers.TaskStatsResponse]) error {
	return s.err
}
