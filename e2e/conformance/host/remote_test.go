// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/plugin"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// serve serves a fake and returns what a host sees of it.
func serve(t *testing.T) (*fake, *host.Remote, *grpc.ClientConn) {
	t.Helper()
	f := newFake()
	remote, conn := serveDriver(t, f)
	return f, remote, conn
}

func serveDriver(t *testing.T, f plugin.Served) (*host.Remote, *grpc.ClientConn) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	plugin.Register(server, "1.2.3", f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:fake",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	rig.Must(t, err)
	t.Cleanup(func() {
		rig.Check(t, conn.Close())
		server.Stop()
		rig.Check(t, <-served)
	})
	return host.NewRemote(conn), conn
}

// TestCalls makes every call and looks at what the driver was asked and what came back.
func TestCalls(t *testing.T) {
	f, r, _ := serve(t)
	ctx := t.Context()
	task := &driver.TaskConfig{ID: "t", Name: "web", Env: map[string]string{"A": "1"}}
	handle := &driver.TaskHandle{Version: 1, Config: task, State: driver.TaskRunning, DriverState: []byte("state")}
	type answer []any
	for _, test := range []struct {
		asked string
		call  func() answer
		want  answer
	}{
		{"SetConfig 80 2000", func() answer {
			return answer{r.SetConfig(ctx, []byte{0x80}, host.Topology([]int{0}, 2000))}
		}, answer{nil}},
		{
			"Capabilities", func() answer { v, err := r.Capabilities(ctx); return answer{v, err} },
			answer{&driver.Capabilities{Exec: true}, nil},
		},
		{
			"StartTask t", func() answer { h, err := r.StartTask(ctx, task); return answer{h, err} },
			answer{handle, nil},
		},
		{"RecoverTask t state", func() answer { return answer{r.RecoverTask(ctx, handle)} }, answer{nil}},
		{"WaitTask t", func() answer {
			v, err := r.WaitTask(ctx, "t")
			if err != nil {
				return answer{err}
			}
			return answer{v.Code, v.Signal, v.Err.Error(), err}
		}, answer{137, 9, "lost", nil}},
		{"StopTask t 5s SIGTERM", func() answer { return answer{r.StopTask(ctx, "t", 5*time.Second, "SIGTERM")} }, answer{nil}},
		{"DestroyTask t true", func() answer { return answer{r.DestroyTask(ctx, "t", true)} }, answer{nil}},
		{
			"InspectTask t", func() answer { v, err := r.InspectTask(ctx, "t"); return answer{v, err} },
			answer{&driver.TaskStatus{ID: "t", State: driver.TaskRunning}, nil},
		},
		{"SignalTask t SIGHUP", func() answer { return answer{r.SignalTask(ctx, "t", "SIGHUP")} }, answer{nil}},
		{`ExecTask t ["ls" "-l"] 1s`, func() answer {
			v, err := r.ExecTask(ctx, "t", []string{"ls", "-l"}, time.Second)
			return answer{v, err}
		}, answer{&driver.ExecResult{Output: []byte("output"), Exit: driver.ExitResult{Code: 3}}, nil}},
	} {
		got := test.call()
		if d := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.asked, d)
		}
		if asked := f.lastAsked(); asked != test.asked {
			t.Errorf("asked %q, want %q", asked, test.asked)
		}
		f.fail(driver.ErrTaskNotFound)
		results := test.call()
		if err, _ := results[len(results)-1].(error); !errors.Is(err, driver.ErrTaskNotFound) {
			t.Errorf("%s: %v, want %v", test.asked, err, driver.ErrTaskNotFound)
		}
		f.fail(nil)
	}
	info, err := r.Info(ctx)
	rig.Must(t, err)
	if d := cmp.Diff(host.Info{Name: driver.Name, Version: "1.2.3", APIVersions: []string{"v0.1.0"}}, info); d != "" {
		t.Errorf("info (-want +got):\n%s", d)
	}
}

func TestStreams(t *testing.T) {
	f, r, _ := serve(t)
	ctx := t.Context()
	stats, err := r.NomadStats(ctx, "t", time.Second)
	rig.Must(t, err)
	for second := range int64(2) {
		// The first one's rate is over the time since the baseline.
		got, err := stats.Recv()
		cpu := got.GetAggResourceUsage().GetCpu()
		if err != nil || got.GetId() != "t" || got.GetTimestamp().GetSeconds() != 1+second ||
			cpu.GetPercent() != 50 || cpu.GetTotalTicks() != 1000 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	events, err := r.TaskEvents(ctx)
	rig.Must(t, err)
	if got, err := events.Recv(); err != nil || got.Message != "hello" {
		t.Errorf("%+v, %v", got, err)
	}
	prints, err := r.Fingerprint(ctx)
	rig.Must(t, err)
	if got, err := prints.Recv(); err != nil || got.Health != driver.Healthy {
		t.Errorf("%+v, %v", got, err)
	}
	close(f.stopped)
	if got, err := stats.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %+v, %v", got, err)
	}

	f.fail(driver.ErrStatsNotImplemented)
	stats, err = r.NomadStats(ctx, "t", time.Second)
	rig.Must(t, err)
	if got, err := stats.Recv(); !errors.Is(err, driver.ErrStatsNotImplemented) {
		t.Errorf("stats of a driver without: %+v, %v", got, err)
	}
}

func TestStreamIsCancelled(t *testing.T) {
	_, r, _ := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	stats, err := r.NomadStats(ctx, "t", time.Second)
	rig.Must(t, err)
	cancel()
	for range 3 {
		if _, err = stats.Recv(); err != nil {
			break
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

func TestExecStreaming(t *testing.T) {
	f, r, _ := serve(t)
	stream, err := r.ExecTaskStreaming(t.Context(), "t", driver.ExecOptions{Command: []string{"cat"}, TTY: true})
	rig.Must(t, err)
	rig.Must(t, stream.Resize(driver.TerminalSize{Rows: 33, Columns: 80}))
	if _, err := stream.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	output, err := stream.Recv()
	if err != nil || string(output.Stdout) != "hello" || string(output.Stderr) != "HELLO" {
		t.Errorf("%+v, %v", output, err)
	}
	rig.Must(t, stream.CloseWrite())
	output, err = stream.Recv()
	if err != nil || output.Exit == nil || output.Exit.Code != 33 {
		t.Errorf("%+v, %v; want the exit", output, err)
	}
	if output, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the exit: %+v, %v", output, err)
	}
	if want := `ExecTaskStreaming t ["cat"] true`; f.lastAsked() != want {
		t.Errorf("asked %q, want %q", f.lastAsked(), want)
	}
}

// A terminal of a size that no terminal has ends the command, and its client learns why.
func TestExecStreamingGarbage(t *testing.T) {
	_, r, conn := serve(t)
	stream, err := r.ExecTaskStreaming(t.Context(), "t", driver.ExecOptions{Command: []string{"cat"}})
	rig.Must(t, err)
	rig.Must(t, stream.Resize(driver.TerminalSize{Rows: -1}))
	if output, err := stream.Recv(); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%+v, %v; want %v", output, err, driver.ErrInvalid)
	}
	raw, err := drivers.NewDriverClient(conn).ExecTaskStreaming(t.Context())
	rig.Must(t, err)
	rig.Must(t, raw.Send(&drivers.ExecTaskStreamingRequest{}))
	if m, err := raw.Recv(); err == nil {
		t.Errorf("without setup: %v", m)
	}
}

func TestRecoverableErrors(t *testing.T) {
	f, r, _ := serve(t)
	for _, want := range []bool{true, false} {
		f.fail(driver.Recoverable(errors.New("no memory"), want))
		_, err := r.StartTask(t.Context(), &driver.TaskConfig{ID: "t"})
		if recoverable, known := driver.IsRecoverable(err); !known || recoverable != want {
			t.Errorf("%v: recoverable %t, known %t; want %t", err, recoverable, known, want)
		}
	}
}
