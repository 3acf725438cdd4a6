// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
)

// StartTask implements driver.Starter.
func (r *Remote) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.NetworkOverride, error) {
	if r.cgroups == nil {
		return r.startTask(ctx, task)
	}
	if err := r.cgroups.make(ctx, task); err != nil {
		return nil, nil, err
	}
	handle, network, err := r.startTask(ctx, task)
	if err != nil && !errors.Is(err, driver.ErrUnavailable) { // of one that is gone nobody knows how far it came
		err = errors.Join(err, r.cgroups.end(ctx, task.ID))
	}
	return handle, network, err
}

func (r *Remote) startTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.NetworkOverride, error) {
	m, err := r.driver.StartTask(ctx, &drivers.StartTaskRequest{Task: wire.FromTaskConfig(task)})
	if err != nil {
		return nil, nil, wire.Error(err)
	}
	switch m.GetResult() {
	case drivers.StartTaskResponse_RETRY:
		return nil, nil, driver.Recoverable(errors.New(m.GetDriverErrorMsg()), true)
	case drivers.StartTaskResponse_FATAL:
		return nil, nil, driver.Recoverable(errors.New(m.GetDriverErrorMsg()), false)
	}
	handle := wire.ToTaskHandle(m.GetHandle())
	if handle == nil {
		return nil, nil, errors.New("the driver started the task without a handle")
	}
	if handle.Config == nil {
		handle.Config = task
	}
	return handle, wire.ToNetworkOverride(m.GetNetworkOverride()), nil
}

// RecoverTask implements driver.Starter.
func (r *Remote) RecoverTask(ctx context.Context, handle *driver.TaskHandle) error {
	if handle == nil || handle.Config == nil {
		return fmt.Errorf("recover: a handle without a task: %w", driver.ErrInvalid)
	}
	if r.cgroups != nil {
		r.cgroups.recover(handle.Config)
	}
	_, err := r.driver.RecoverTask(ctx, &drivers.RecoverTaskRequest{
		TaskId: handle.Config.ID, Handle: wire.FromTaskHandle(handle),
	})
	return wire.Error(err)
}

// WaitTask implements driver.Lifecycle.
func (r *Remote) WaitTask(ctx context.Context, id string) (*driver.ExitResult, error) {
	m, err := r.driver.WaitTask(ctx, &drivers.WaitTaskRequest{TaskId: id})
	if err != nil {
		return nil, wire.Error(err)
	}
	return wire.ToWait(m), nil
}

// StopTask implements driver.Lifecycle.
func (r *Remote) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	_, err := r.driver.StopTask(ctx, &drivers.StopTaskRequest{
		TaskId: id, Timeout: durationpb.New(timeout), Signal: signal,
	})
	return wire.Error(err)
}

// DestroyTask implements driver.Lifecycle.
func (r *Remote) DestroyTask(ctx context.Context, id string, force bool) error {
	_, err := r.driver.DestroyTask(ctx, &drivers.DestroyTaskRequest{TaskId: id, Force: force})
	err = wire.Error(err)
	if r.cgroups != nil && (err == nil || errors.Is(err, driver.ErrTaskNotFound)) {
		err = errors.Join(err, r.cgroups.end(ctx, id))
	}
	return err
}

// InspectTask implements driver.Lifecycle.
func (r *Remote) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	m, err := r.driver.InspectTask(ctx, &drivers.InspectTaskRequest{TaskId: id})
	if err != nil {
		return nil, wire.Error(err)
	}
	return wire.ToTaskStatus(m), nil
}

// SignalTask implements driver.Lifecycle.
func (r *Remote) SignalTask(ctx context.Context, id, signal string) error {
	_, err := r.driver.SignalTask(ctx, &drivers.SignalTaskRequest{TaskId: id, Signal: signal})
	return wire.Error(err)
}

// CreateNetwork implements driver.Networker; driver.ErrNotSupported from drivers that make no networks.
func (r *Remote) CreateNetwork(ctx context.Context, allocID, hostname string) (*driver.NetworkIsolation, bool, error) {
	m, err := r.driver.CreateNetwork(ctx, &drivers.CreateNetworkRequest{AllocId: allocID, Hostname: hostname})
	if err != nil {
		return nil, false, wire.Error(err)
	}
	return wire.ToNetworkIsolation(m.GetIsolationSpec()), m.GetCreated(), nil
}

// DestroyNetwork implements driver.Networker.
func (r *Remote) DestroyNetwork(ctx context.Context, allocID string, network *driver.NetworkIsolation) error {
	_, err := r.driver.DestroyNetwork(ctx, &drivers.DestroyNetworkRequest{
		AllocId: allocID, IsolationSpec: wire.FromNetworkIsolation(network),
	})
	return wire.Error(err)
}

// ExecTask implements driver.Execer.
func (r *Remote) ExecTask(ctx context.Context, id string, command []string, timeout time.Duration) (*driver.ExecResult, error) {
	m, err := r.driver.ExecTask(ctx, &drivers.ExecTaskRequest{
		TaskId: id, Command: command, Timeout: durationpb.New(timeout),
	})
	if err != nil {
		return nil, wire.Error(err)
	}
	result := &driver.ExecResult{Output: append(m.GetStdout(), m.GetStderr()...)}
	if exit := wire.ToExitResult(m.GetResult()); exit != nil {
		result.Exit = *exit
	}
	return result, nil
}
