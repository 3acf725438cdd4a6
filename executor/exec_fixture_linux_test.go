// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

// execution is an exec under test.
type execution struct {
	grpc.BidiStreamingClient[proto.ExecRequest, proto.ExecResponse]
	t testing.TB
	// seen is all output so far of both streams.
	stdout, stderr strings.Builder
	exit           *proto.ExecExit
}

func (f *fixture) exec(ctx context.Context, setup *proto.ExecSetup) *execution {
	f.t.Helper()
	stream := testkit.Value(f.Exec(ctx))(f.t)
	x := &execution{BidiStreamingClient: stream, t: f.t}
	x.send(&proto.ExecRequest{Message: &proto.ExecRequest_Setup{Setup: setup}})
	return x
}

// shell runs a script beside the task.
func (f *fixture) shell(script string) *execution {
	f.t.Helper()
	return f.exec(f.t.Context(), &proto.ExecSetup{Command: []string{"sh", "-c", script}})
}

// terminal runs a script on a terminal beside the task.
func (f *fixture) terminal(script string) *execution {
	f.t.Helper()
	return f.exec(f.t.Context(), &proto.ExecSetup{Command: []string{"sh", "-c", script}, Tty: true})
}

func (x *execution) send(m *proto.ExecRequest) {
	x.t.Helper()
	if err := x.Send(m); err != nil && !errors.Is(err, io.EOF) { // io.EOF: the reason comes with Recv
		x.t.Fatal(err)
	}
}

func (x *execution) input(text string) {
	x.t.Helper()
	x.send(&proto.ExecRequest{Message: &proto.ExecRequest_Stdin{Stdin: []byte(text)}})
}

func (x *execution) endInput() {
	x.t.Helper()
	x.send(&proto.ExecRequest{Message: &proto.ExecRequest_StdinClose{StdinClose: true}})
}

func (x *execution) resize(rows, columns uint32) {
	x.t.Helper()
	x.send(&proto.ExecRequest{Message: &proto.ExecRequest_Window{Window: &proto.WindowSize{Rows: rows, Columns: columns}}})
}

// next takes one message.
func (x *execution) next() error {
	m, err := x.Recv()
	if err != nil {
		return err
	}
	x.stdout.Write(m.GetStdout())
	x.stderr.Write(m.GetStderr())
	if m.GetExit() != nil {
		x.exit = m.GetExit()
	}
	return nil
}

// expect takes messages until a text was written to standard output.
func (x *execution) expect(text string) {
	x.t.Helper()
	for !strings.Contains(x.stdout.String(), text) {
		if err := x.next(); err != nil {
			x.t.Fatalf("no %q before the end, %v; in all %q, %q, exit %v", text, err, x.stdout.String(), x.stderr.String(), x.exit)
		}
	}
}

// finish takes messages until the end and returns how the stream ended: nil where it told of an exit.
func (x *execution) finish() error {
	x.t.Helper()
	for {
		err := x.next()
		if errors.Is(err, io.EOF) && x.exit != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// end expects a proper end.
func (x *execution) end() *proto.ExecExit {
	x.t.Helper()
	if err := x.finish(); err != nil {
		x.t.Fatalf("exec: %v; output %q, %q", err, x.stdout.String(), x.stderr.String())
	}
	return x.exit
}

// sleeper is a task for commands to run beside.
const sleeper = "echo ready; exec sleep 1000"

func (f *fixture) runSleeper(changes ...func(*proto.LaunchRequest)) {
	f.t.Helper()
	f.run(sleeper, changes...)
	f.expect("ready")
}
