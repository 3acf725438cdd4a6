// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// FromTaskHandle returns the message of a handle; nil of nil.
func FromTaskHandle(h *driver.TaskHandle) *drivers.TaskHandle {
	if h == nil {
		return nil
	}
	return &drivers.TaskHandle{
		Version:     int32(h.Version),
		Config:      FromTaskConfig(h.Config),
		State:       drivers.TaskState(h.State),
		DriverState: h.DriverState,
	}
}

// ToTaskHandle returns the handle of a message; nil of nil.
func ToTaskHandle(m *drivers.TaskHandle) *driver.TaskHandle {
	if m == nil {
		return nil
	}
	return &driver.TaskHandle{
		Version:     int(m.GetVersion()),
		Config:      ToTaskConfig(m.GetConfig()),
		State:       driver.TaskState(m.GetState()),
		DriverState: m.GetDriverState(),
	}
}

// FromNetworkOverride returns the message of a task's own network; nil of nil.
func FromNetworkOverride(n *driver.NetworkOverride) *drivers.NetworkOverride {
	if n == nil {
		return nil
	}
	return &drivers.NetworkOverride{PortMap: n.PortMap, Addr: n.Addr, AutoAdvertise: n.AutoAdvertise}
}

// ToNetworkOverride returns the network of a message; nil of nil.
func ToNetworkOverride(m *drivers.NetworkOverride) *driver.NetworkOverride {
	if m == nil {
		return nil
	}
	return &driver.NetworkOverride{PortMap: m.GetPortMap(), Addr: m.GetAddr(), AutoAdvertise: m.GetAutoAdvertise()}
}

// FromExitResult returns the message of an exit, without its error; nil of nil.
func FromExitResult(r *driver.ExitResult) *drivers.ExitResult {
	if r == nil {
		return nil
	}
	return &drivers.ExitResult{
		ExitCode: int32(r.Code), Signal: int32(r.Signal), OomKilled: r.OOMKilled, TachoRetryable: text(r.Retryable),
	}
}

// ToExitResult returns the exit of a message; nil of nil.
func ToExitResult(m *drivers.ExitResult) *driver.ExitResult {
	if m == nil {
		return nil
	}
	return &driver.ExitResult{
		Code: int(m.GetExitCode()), Signal: int(m.GetSignal()), OOMKilled: m.GetOomKilled(), Retryable: m.GetTachoRetryable(),
	}
}

// FromWait returns the answer to WaitTask.
func FromWait(r *driver.ExitResult) *drivers.WaitTaskResponse {
	m := &drivers.WaitTaskResponse{Result: FromExitResult(r)}
	if r != nil && r.Err != nil {
		m.Err = text(r.Err.Error())
	}
	return m
}

// ToWait returns the exit that WaitTask answered with. A message without one is an exit that is not known.
func ToWait(m *drivers.WaitTaskResponse) *driver.ExitResult {
	r := ToExitResult(m.GetResult())
	if r == nil {
		r = &driver.ExitResult{Code: -1, Err: errors.New("the driver sent no exit result")}
	}
	if m.GetErr() != "" {
		r.Err = errors.New(m.GetErr())
	}
	return r
}

// FromTaskStatus returns the answer to InspectTask.
func FromTaskStatus(s *driver.TaskStatus) *drivers.InspectTaskResponse {
	return &drivers.InspectTaskResponse{
		Task: &drivers.TaskStatus{
			Id:          s.ID,
			Name:        s.Name,
			State:       drivers.TaskState(s.State),
			StartedAt:   fromTime(s.StartedAt),
			CompletedAt: fromTime(s.CompletedAt),
			Result:      FromExitResult(s.Exit),
		},
		Driver:          &drivers.TaskDriverStatus{Attributes: texts(s.Attributes)},
		NetworkOverride: FromNetworkOverride(s.Network),
	}
}

// ToTaskStatus returns the status that InspectTask answered with.
func ToTaskStatus(m *drivers.InspectTaskResponse) *driver.TaskStatus {
	task := m.GetTask()
	return &driver.TaskStatus{
		ID:          task.GetId(),
		Name:        task.GetName(),
		State:       driver.TaskState(task.GetState()),
		StartedAt:   toTime(task.GetStartedAt()),
		CompletedAt: toTime(task.GetCompletedAt()),
		Exit:        ToExitResult(task.GetResult()),
		Attributes:  m.GetDriver().GetAttributes(),
		Network:     ToNetworkOverride(m.GetNetworkOverride()),
	}
}

// fromTime sends the zero time as no message at all: a time.Time in year 1 is not a moment.
func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toTime(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}
