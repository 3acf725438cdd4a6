// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// ExecTaskStreaming implements suite.Driver. A rejection comes with the first Recv.
func (r *Remote) ExecTaskStreaming(
	ctx context.Context, id string, options driver.ExecOptions,
) (driver.ExecStream, error) {
	stream, err := r.driver.ExecTaskStreaming(ctx)
	if err != nil {
		return nil, toError(err)
	}
	exec := &remoteExec{stream: stream}
	setup := &drivers.ExecTaskStreamingRequest_Setup{TaskId: id, Command: options.Command, Tty: options.TTY}
	if err := exec.send(&drivers.ExecTaskStreamingRequest{Setup: setup}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return exec, nil
}

type remoteExec struct {
	stream drivers.Driver_ExecTaskStreamingClient

	sending sync.Mutex // guards the sending side of stream, which takes one message at a time
}

// Recv returns what the message brings. A message can have output of both streams and the exit at once; one with
// nothing in it says nothing.
func (e *remoteExec) Recv() (driver.ExecOutput, error) {
	for {
		m, err := e.stream.Recv()
		if errors.Is(err, io.EOF) {
			return driver.ExecOutput{}, io.EOF
		}
		if err != nil {
			return driver.ExecOutput{}, toError(err)
		}
		output := driver.ExecOutput{Stdout: m.GetStdout().GetData(), Stderr: m.GetStderr().GetData()}
		if m.GetExited() {
			if output.Exit = toExitResult(m.GetResult()); output.Exit == nil {
				output.Exit = &driver.ExitResult{}
			}
		}
		if len(output.Stdout) > 0 || len(output.Stderr) > 0 || output.Exit != nil {
			return output, nil
		}
	}
}

// Write returns io.EOF after the command's end; Recv says why.
func (e *remoteExec) Write(p []byte) (int, error) {
	input := &drivers.ExecTaskStreamingIOOperation{Data: p}
	if err := e.send(&drivers.ExecTaskStreamingRequest{Stdin: input}); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *remoteExec) CloseWrite() error {
	return e.send(&drivers.ExecTaskStreamingRequest{Stdin: &drivers.ExecTaskStreamingIOOperation{Close: true}})
}

func (e *remoteExec) Resize(size driver.TerminalSize) error {
	return e.send(&drivers.ExecTaskStreamingRequest{TtySize: &drivers.ExecTaskStreamingRequest_TerminalSize{
		Height: int32(size.Rows), Width: int32(size.Columns),
	}})
}

func (e *remoteExec) send(m *drivers.ExecTaskStreamingRequest) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	err := e.stream.Send(m)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return toError(err)
}
