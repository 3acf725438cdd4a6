// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
)

// maxOutput bounds what ExecTask keeps of the output: its callers are checks, which print little.
const maxOutput = 1 << 20

// ExecTask runs a command beside the main process and returns what it wrote. It is killed after timeout; 0 means no
// limit. Beyond 1 MiB of output the rest is dropped.
func (d *Tacho) ExecTask(ctx context.Context, id string, command []string, timeout time.Duration) (*ExecResult, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout,
			fmt.Errorf("command was killed after %s: %w", timeout, context.DeadlineExceeded))
		defer cancel()
	}
	stream, err := d.ExecTaskStreaming(ctx, id, ExecOptions{Command: command})
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if err := stream.CloseWrite(); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("exec: %w", err)
	}
	result := &ExecResult{}
	for {
		output, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("exec: %w", cmp.Or(context.Cause(ctx), err))
		}
		result.Output = appendBounded(appendBounded(result.Output, output.Stdout), output.Stderr)
		if output.Exit != nil {
			result.Exit = *output.Exit
			return result, nil
		}
	}
}

func appendBounded(kept, more []byte) []byte {
	return append(kept, more[:min(len(more), maxOutput-len(kept))]...)
}

// ExecTaskStreaming runs a command beside the main process with live streams, as long as ctx lives.
func (d *Tacho) ExecTaskStreaming(ctx context.Context, id string, options ExecOptions) (ExecStream, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	if len(options.Command) == 0 || options.Command[0] == "" {
		return nil, invalid("exec: no command")
	}
	if !t.running() {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, ErrTaskNotRunning)
	}
	if err := t.answers(ctx); err != nil {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, err)
	}
	stream, err := t.client.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, err)
	}
	e := &execStream{stream: stream}
	setup := &proto.ExecSetup{Command: options.Command, Tty: options.TTY}
	err = e.send(&proto.ExecRequest{Message: &proto.ExecRequest_Setup{Setup: setup}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, err)
	}
	return e, nil
}

// execStream is an exec of an executor.
type execStream struct {
	stream grpc.BidiStreamingClient[proto.ExecRequest, proto.ExecResponse]

	sending sync.Mutex // guards the sending side of stream, which takes one message at a time
}

func (e *execStream) Recv() (ExecOutput, error) {
	for {
		m, err := e.stream.Recv()
		if err != nil {
			return ExecOutput{}, launchStatus(err)
		}
		switch message := m.GetMessage().(type) {
		case *proto.ExecResponse_Stdout:
			return ExecOutput{Stdout: message.Stdout}, nil
		case *proto.ExecResponse_Stderr:
			return ExecOutput{Stderr: message.Stderr}, nil
		case *proto.ExecResponse_Exit:
			return ExecOutput{Exit: &ExitResult{
				Code: int(message.Exit.GetCode()), Signal: int(message.Exit.GetSignal()),
			}}, nil
		}
	}
}

// launchStatus is what an executor has against a command, without the words of its wire.
func launchStatus(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	switch text := status.Convert(err).Message(); status.Code(err) {
	case codes.NotFound:
		return fmt.Errorf("%w: %s", ErrCommandNotFound, strings.TrimSuffix(text, ": command not found"))
	case codes.PermissionDenied:
		return fmt.Errorf("%w: %s", ErrNotExecutable, strings.TrimSuffix(text, ": not executable"))
	}
	return Recoverable(launchError(err), false)
}

func (e *execStream) Write(p []byte) (int, error) {
	if err := e.send(&proto.ExecRequest{Message: &proto.ExecRequest_Stdin{Stdin: p}}); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *execStream) CloseWrite() error {
	return e.send(&proto.ExecRequest{Message: &proto.ExecRequest_StdinClose{StdinClose: true}})
}

func (e *execStream) Resize(size TerminalSize) error {
	return e.send(&proto.ExecRequest{Message: &proto.ExecRequest_Window{Window: &proto.WindowSize{
		Rows: uint32(size.Rows), Columns: uint32(size.Columns),
	}}})
}

func (e *execStream) send(m *proto.ExecRequest) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	return e.stream.Send(m)
}
