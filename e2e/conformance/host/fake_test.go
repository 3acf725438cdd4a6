// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/procstats"
)

// fake is a driver without tasks: it answers what the test wants and notes what it was asked.
type fake struct {
	mu      sync.Mutex // guards following
	asked   []string
	err     error // what every call fails with
	known   map[string]bool
	stopped chan struct{} // ends streams
}

func newFake() *fake { return &fake{known: make(map[string]bool), stopped: make(chan struct{})} }

func (f *fake) ask(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.err
}

// lastAsked is what the last call asked for.
func (f *fake) lastAsked() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return ""
	}
	return f.asked[len(f.asked)-1]
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) SetConfig(_ context.Context, msgpack []byte, coreMHz float64) error {
	return f.ask("SetConfig %x %v", msgpack, coreMHz)
}

func (f *fake) Capabilities(context.Context) (*driver.Capabilities, error) {
	return &driver.Capabilities{Exec: true}, f.ask("Capabilities")
}

func (f *fake) Fingerprint(ctx context.Context) (driver.Stream[*driver.Fingerprint], error) {
	return listed(ctx, f, &driver.Fingerprint{Health: driver.Healthy, Description: "well"}), f.ask("Fingerprint")
}

func (f *fake) StartTask(_ context.Context, task *driver.TaskConfig) (*driver.TaskHandle, error) {
	handle := &driver.TaskHandle{Version: 1, Config: task, State: driver.TaskRunning, DriverState: []byte("state")}
	return handle, f.ask("StartTask %s", task.ID)
}

func (f *fake) RecoverTask(_ context.Context, handle *driver.TaskHandle) error {
	if handle.Config.ID == "lost" {
		return errors.New("there is no such process")
	}
	f.mu.Lock()
	if handle.Config.ID == "fatal" && f.known["fatal"] {
		os.Exit(2) // as a plugin does that cannot log
	}
	f.known[handle.Config.ID] = true
	f.mu.Unlock()
	return f.ask("RecoverTask %s %s", handle.Config.ID, handle.DriverState)
}

func (f *fake) WaitTask(ctx context.Context, id string) (*driver.ExitResult, error) {
	if id == "long" {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return &driver.ExitResult{Code: 137, Signal: 9, Err: errors.New("lost")}, f.ask("WaitTask %s", id)
}

func (f *fake) StopTask(_ context.Context, id string, timeout time.Duration, signal string) error {
	return f.ask("StopTask %s %s %s", id, timeout, signal)
}

func (f *fake) DestroyTask(_ context.Context, id string, force bool) error {
	return f.ask("DestroyTask %s %t", id, force)
}

func (f *fake) InspectTask(_ context.Context, id string) (*driver.TaskStatus, error) {
	f.mu.Lock()
	known := f.known[id]
	f.mu.Unlock()
	if id == "recovered" && !known {
		return nil, driver.ErrTaskNotFound
	}
	return &driver.TaskStatus{ID: id, State: driver.TaskRunning}, f.ask("InspectTask %s", id)
}

func (f *fake) SignalTask(_ context.Context, id, signal string) error {
	return f.ask("SignalTask %s %s", id, signal)
}

func (f *fake) TaskStats(ctx context.Context, id string, interval time.Duration) (driver.StatsStream, error) {
	at := func(seconds int) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Duration(seconds) * time.Second, Wall: time.Unix(int64(seconds), 0)}}
		s.SetRead(procstats.SourceCgroup, s.Stamp)
		s.SetNumber(procstats.CgroupCPUUsage, 0.5*float64(seconds))
		return s
	}
	return statsStream{listed(ctx, f, at(1), at(2)), at(0)}, f.ask("TaskStats %s %s", id, interval)
}

type statsStream struct {
	driver.Stream[*procstats.Sample]
	baseline *procstats.Sample
}

func (s statsStream) Baseline() *procstats.Sample { return s.baseline }

func (f *fake) CoreMHz() float64 { return 2000 }

func (f *fake) TaskEvents(ctx context.Context) (driver.Stream[*driver.Event], error) {
	return listed(ctx, f, &driver.Event{TaskID: "t", Message: "hello"}), f.ask("TaskEvents")
}

func (f *fake) ExecTask(_ context.Context, id string, command []string, timeout time.Duration) (*driver.ExecResult, error) {
	return &driver.ExecResult{Output: []byte("output"), Exit: driver.ExitResult{Code: 3}},
		f.ask("ExecTask %s %q %s", id, command, timeout)
}

func (f *fake) ExecTaskStreaming(ctx context.Context, id string, options driver.ExecOptions) (driver.ExecStream, error) {
	return &echo{ctx: ctx, wrote: make(chan []byte), closed: make(chan struct{})}, f.ask("ExecTaskStreaming %s %q %t", id, options.Command, options.TTY)
}

// stream is a list that ends with io.EOF, or goes on without another message where the fake is not stopped.
type stream[T any] struct {
	ctx  context.Context
	fake *fake
	list []T
}

func listed[T any](ctx context.Context, f *fake, list ...T) driver.Stream[T] {
	return &stream[T]{ctx, f, list}
}

func (s *stream[T]) Recv() (message T, err error) {
	if len(s.list) == 0 {
		select {
		case <-s.fake.stopped:
			return message, io.EOF
		case <-s.ctx.Done():
			return message, context.Cause(s.ctx)
		}
	}
	message, s.list = s.list[0], s.list[1:]
	return message, nil
}

// echo is a command that repeats its input and then exits with its terminal's rows.
type echo struct {
	ctx    context.Context
	wrote  chan []byte
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex // guards following
	rows   int
	exited bool
}

func (e *echo) Recv() (driver.ExecOutput, error) {
	select {
	case p := <-e.wrote:
		return driver.ExecOutput{Stdout: p, Stderr: bytes.ToUpper(p)}, nil
	case <-e.closed:
	case <-e.ctx.Done():
		return driver.ExecOutput{}, context.Cause(e.ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exited {
		return driver.ExecOutput{}, io.EOF
	}
	e.exited = true
	return driver.ExecOutput{Exit: &driver.ExitResult{Code: e.rows}}, nil
}

func (e *echo) Write(p []byte) (int, error) {
	select {
	case e.wrote <- bytes.Clone(p):
		return len(p), nil
	case <-e.closed:
		return 0, io.EOF
	case <-e.ctx.Done():
		return 0, io.EOF
	}
}

func (e *echo) CloseWrite() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func (e *echo) Resize(size driver.TerminalSize) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rows = size.Rows
	return nil
}
