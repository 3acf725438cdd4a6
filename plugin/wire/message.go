// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"cmp"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// FromTaskConfig returns the message of a task; nil of nil.
func FromTaskConfig(c *driver.TaskConfig) *drivers.TaskConfig { return convert[drivers.TaskConfig](c) }

// ToTaskConfig returns the task of a message; nil of nil.
func ToTaskConfig(m *drivers.TaskConfig) *driver.TaskConfig { return convert[driver.TaskConfig](m) }

// FromTaskHandle returns the message of a handle; nil of nil.
func FromTaskHandle(h *driver.TaskHandle) *drivers.TaskHandle { return convert[drivers.TaskHandle](h) }

// ToTaskHandle returns the handle of a message; nil of nil.
func ToTaskHandle(m *drivers.TaskHandle) *driver.TaskHandle { return convert[driver.TaskHandle](m) }

// FromNetworkOverride returns the message of a task's address; nil of nil.
func FromNetworkOverride(n *driver.NetworkOverride) *drivers.NetworkOverride {
	return convert[drivers.NetworkOverride](n)
}

// ToNetworkOverride returns the address in a message; nil of nil.
func ToNetworkOverride(m *drivers.NetworkOverride) *driver.NetworkOverride {
	return convert[driver.NetworkOverride](m)
}

// FromNetworkIsolation returns the message of a network namespace; nil of nil.
func FromNetworkIsolation(n *driver.NetworkIsolation) *drivers.NetworkIsolationSpec {
	return convert[drivers.NetworkIsolationSpec](n)
}

// ToNetworkIsolation returns the network namespace of a message; nil of nil.
func ToNetworkIsolation(m *drivers.NetworkIsolationSpec) *driver.NetworkIsolation {
	return convert[driver.NetworkIsolation](m)
}

// FromExitResult returns the message of an exit, without its error; nil of nil.
func FromExitResult(r *driver.ExitResult) *drivers.ExitResult {
	m := convert[drivers.ExitResult](r)
	if m != nil {
		m.TachoRetryable = text(m.TachoRetryable)
	}
	return m
}

// ToExitResult returns the exit in a message; nil of nil.
func ToExitResult(m *drivers.ExitResult) *driver.ExitResult { return convert[driver.ExitResult](m) }

// FromWait returns the message of an exit with the text of its error.
func FromWait(r *driver.ExitResult) *drivers.WaitTaskResponse {
	m := &drivers.WaitTaskResponse{Result: FromExitResult(r)}
	if r != nil && r.Err != nil {
		m.Err = text(r.Err.Error())
	}
	return m
}

// ToWait returns the exit in a message; one that holds none is an error and not an exit with code 0.
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

// FromTaskStatus returns the message of what is known of a task; nil of nil.
func FromTaskStatus(s *driver.TaskStatus) *drivers.InspectTaskResponse {
	if s == nil {
		return nil
	}
	task := convert[drivers.TaskStatus](s)
	// Hosts dereference the result of tasks that have not ended, and accept the year 1 where they refuse no moment at all.
	task.Result = cmp.Or(FromExitResult(s.Exit), new(drivers.ExitResult))
	task.StartedAt, task.CompletedAt = timestamppb.New(s.StartedAt), timestamppb.New(s.CompletedAt)
	return &drivers.InspectTaskResponse{
		Task:            task,
		Driver:          &drivers.TaskDriverStatus{Attributes: texts(s.Attributes)},
		NetworkOverride: FromNetworkOverride(s.Network),
	}
}

// ToTaskStatus returns what a message says of a task.
func ToTaskStatus(m *drivers.InspectTaskResponse) *driver.TaskStatus {
	s := cmp.Or(convert[driver.TaskStatus](m.GetTask()), new(driver.TaskStatus))
	if s.State != driver.TaskExited {
		s.Exit = nil
	}
	s.Attributes, s.Network = m.GetDriver().GetAttributes(), ToNetworkOverride(m.GetNetworkOverride())
	return s
}

// FromEvent returns the message of an event.
func FromEvent(e *driver.Event) *drivers.DriverTaskEvent {
	m := convert[drivers.DriverTaskEvent](e)
	m.Message, m.Annotations = text(e.Message), texts(e.Annotations)
	return m
}

// ToEvent returns the event of a message.
func ToEvent(m *drivers.DriverTaskEvent) *driver.Event { return convert[driver.Event](m) }

// FromCapabilities returns the message of what a driver can do; nil of nil.
func FromCapabilities(c *driver.Capabilities) *drivers.DriverCapabilities {
	m := convert[drivers.DriverCapabilities](c)
	if c != nil && c.NoMounts {
		m.MountConfigs = drivers.DriverCapabilities_NO_MOUNTS
	}
	return m
}

// ToCapabilities returns what a message says a driver can do.
func ToCapabilities(m *drivers.DriverCapabilities) *driver.Capabilities {
	c := cmp.Or(convert[driver.Capabilities](m), new(driver.Capabilities))
	c.NoMounts = m.GetMountConfigs() == drivers.DriverCapabilities_NO_MOUNTS
	return c
}

// FromNode returns the message of the machine; nil of nil.
func FromNode(n *driver.Node) *base.NomadConfig {
	if n == nil {
		return nil
	}
	return &base.NomadConfig{Driver: convert[base.NomadDriverConfig](n)}
}

// ToNode returns the machine of a message; nil if it says nothing of it.
func ToNode(m *base.NomadConfig) *driver.Node { return convert[driver.Node](m.GetDriver()) }
