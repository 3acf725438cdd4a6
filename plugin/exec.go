// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
)

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
