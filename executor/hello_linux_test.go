// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// raw connects to the executor without the client's own greeting.
func (f *fixture) raw() proto.ExecutorClient {
	f.t.Helper()
	conn, err := grpc.NewClient("unix:"+f.Address().Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(f.t, err)
	f.t.Cleanup(func() { must(f.t, conn.Close()) })
	return proto.NewExecutorClient(conn)
}

func TestHello(t *testing.T) {
	t.Parallel()
	f := start(t)
	hello := f.Hello()
	boot := testkit.Value(kernel.BootID(kernel.HostFS()))(t)
	if hello.GetProtocolMin() != wire.ProtocolMin || hello.GetProtocolMax() != wire.ProtocolMax || hello.GetBootId() != boot {
		t.Errorf("greeting %v", hello)
	}
	executor, err := kernel.Identify(kernel.HostFS(), int(hello.GetExecutor().GetPid()))
	if err != nil || executor.Start != hello.GetExecutor().GetStart() {
		t.Errorf("the executor says it is %v, /proc says %v, %v", hello.GetExecutor(), executor, err)
	}
	for _, step := range []struct {
		state proto.TaskState
		after func()
	}{
		{proto.TaskState_TASK_STATE_PENDING, func() {}},
		{proto.TaskState_TASK_STATE_RUNNING, func() { f.runSleeper() }},
		{proto.TaskState_TASK_STATE_EXITED, func() { must(t, f.Stop(t.Context(), 0, 0)) }},
	} {
		step.after()
		visitor := f.visit()
		testkit.Equal(t, visitor.Hello().GetState(), step.state, "state")
		launched := step.state != proto.TaskState_TASK_STATE_PENDING
		if got := visitor.Hello().GetLaunched(); (got != nil) != launched || (launched && got.GetMain().GetPid() != f.launched.GetMain().GetPid()) {
			t.Errorf("launched %v in state %s", got, step.state)
		}
		testkit.NoError(t, visitor.Close())
	}
}

func TestHelloMismatch(t *testing.T) {
	t.Parallel()
	f := start(t)
	tests := []struct {
		name     string
		min, max uint32
		want     codes.Code
	}{
		{"the same", wire.ProtocolMin, wire.ProtocolMax, codes.OK},
		{"a wider range", 0, 1000, codes.OK},
		{"a later caller that still speaks ours", wire.ProtocolMax, 1000, codes.OK},
		{"an older caller", 0, wire.ProtocolMin - 1, codes.FailedPrecondition},
		{"a later caller", wire.ProtocolMax + 1, 1000, codes.FailedPrecondition},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := f.raw().Hello(t.Context(), &proto.HelloRequest{ProtocolMin: tt.min, ProtocolMax: tt.max, Build: "v9-test"})
			if status.Code(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), "v9-test") {
				t.Errorf("the refusal does not name the caller's build: %v", err)
			}
		})
	}
}

// Nobody but the executor's user can reach its socket.
func TestSocketIsPrivate(t *testing.T) {
	t.Parallel()
	f := start(t)
	for path, want := range map[string]os.FileMode{f.Address().Folder: 0o700, f.Address().Socket: 0o600} {
		info := testkit.Value(os.Stat(path))(t)
		if info.Mode().Perm()&^want != 0 {
			t.Errorf("%s has mode %s, want at most %s", path, info.Mode(), want)
		}
	}
}

func TestBeforeLaunch(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := t.Context()
	calls := map[string]func() error{
		"Wait":   func() error { _, _, err := f.Wait(ctx); return err },
		"Signal": func() error { return f.Signal(ctx, 15, false) },
		"Stop":   func() error { return f.Stop(ctx, 0, 0) },
		"Sample": func() error { _, err := f.Sample(ctx, 0, false); return err },
		"Stats": func() error {
			stream, err := f.Stats(ctx, 1e9, false)
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	}
	for name, call := range calls {
		if err := call(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s before Launch: %v", name, err)
		}
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	if err := f.Shutdown(t.Context()); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Shutdown with a live task: %v", err)
	}
	must(t, f.Stop(t.Context(), 0, 0))
	testkit.NoError(t, f.Shutdown(t.Context()))
	// A call to an executor that is gone says so, whatever it is.
	if _, _, err := f.Wait(t.Context()); !errors.Is(err, client.ErrLost) {
		t.Errorf("Wait after the end of the executor: %v", err)
	}
	events, err := f.Events(t.Context())
	if err == nil {
		_, err = events.Recv()
	}
	if !errors.Is(err, client.ErrLost) {
		t.Errorf("Events after the end of the executor: %v", err)
	}
}

// An executor that its caller left before Launch is no use to anybody.
func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	if _, err := client.Start(ctx, client.Options{Binary: self(), RuntimeDir: dir, ID: "x"}); err == nil {
		t.Fatal("started")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestStartRefused(t *testing.T) {
	t.Parallel()
	open := t.TempDir()
	must(t, os.Chmod(open, 0o777))
	own := t.TempDir()
	must(t, os.Chmod(own, 0o700))
	tests := []struct {
		name    string
		options client.Options
	}{
		{"a folder that others can write to", client.Options{Binary: self(), RuntimeDir: open, ID: "x"}},
		{"a program that is none of ours", client.Options{Binary: "/bin/true", RuntimeDir: own, ID: "x"}},
		{"no program", client.Options{Binary: "/no/such/file", RuntimeDir: own, ID: "x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := client.Start(t.Context(), tt.options); err == nil {
				t.Errorf("started an executor at %s", c.Address().Folder)
			}
			if entries, err := os.ReadDir(tt.options.RuntimeDir); err != nil || len(entries) > 0 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		})
	}
}

// TestIgnoredSignals is about a caller that ignores SIGHUP, as below nohup(1).
func TestIgnoredSignals(t *testing.T) {
	signal.Ignore(unix.SIGHUP)
	defer signal.Reset(unix.SIGHUP)
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept %v", keep), func(t *testing.T) {
			f := startWith(t, func(o *client.Options) { o.KeepIgnored = keep })
			f.run("kill -HUP $$; echo lives")
			exit, _ := f.wait()
			if lives := f.stdout() == "lives\n"; lives != keep {
				t.Errorf("the task's SIGHUP: it wrote %q and ended with signal %d", f.stdout(), exit.GetSignal())
			}
		})
	}
}

func TestEventsEnd(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("exit 3")
	f.wait()
	var kinds []string
	for i, event := range f.allEvents() {
		kinds = append(kinds, event.GetKind())
		testkit.Equal(t, event.GetSequence(), uint64(i)+1, "event %d has sequence", i)
		if event.GetMessage() == "" || event.GetUnixNs() == 0 {
			t.Errorf("event without words or time: %v", event)
		}
	}
	testkit.Equal(t, strings.Join(kinds, " "), "launched main_exited exited", "events")
	stream := testkit.Value(f.Events(t.Context()))(t)
	for range 3 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %v", err)
	}
}
