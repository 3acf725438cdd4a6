// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"errors"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/structs"
)

// FromEvent returns the message of an event.
func FromEvent(e *driver.Event) *drivers.DriverTaskEvent {
	return &drivers.DriverTaskEvent{
		TaskId:      e.TaskID,
		AllocId:     e.AllocID,
		TaskName:    e.TaskName,
		Timestamp:   fromTime(e.Timestamp),
		Message:     text(e.Message),
		Annotations: texts(e.Annotations),
	}
}

// ToEvent returns the event of a message.
func ToEvent(m *drivers.DriverTaskEvent) *driver.Event {
	return &driver.Event{
		TaskID:      m.GetTaskId(),
		AllocID:     m.GetAllocId(),
		TaskName:    m.GetTaskName(),
		Timestamp:   toTime(m.GetTimestamp()),
		Message:     m.GetMessage(),
		Annotations: m.GetAnnotations(),
	}
}

// FromFingerprint returns the message of a driver's state.
func FromFingerprint(f *driver.Fingerprint) *drivers.FingerprintResponse {
	m := &drivers.FingerprintResponse{
		Health:            drivers.FingerprintResponse_HealthState(f.Health),
		HealthDescription: text(f.Description),
	}
	if f.Err != nil {
		m.Err = text(f.Err.Error())
	}
	if len(f.Attributes) > 0 {
		m.Attributes = make(map[string]*structs.Attribute, len(f.Attributes))
		for name, a := range f.Attributes {
			m.Attributes[name] = fromAttribute(a)
		}
	}
	return m
}

// ToFingerprint returns the state of a message.
func ToFingerprint(m *drivers.FingerprintResponse) *driver.Fingerprint {
	f := &driver.Fingerprint{Health: driver.Health(m.GetHealth()), Description: m.GetHealthDescription()}
	if m.GetErr() != "" {
		f.Err = errors.New(m.GetErr())
	}
	if attributes := m.GetAttributes(); len(attributes) > 0 {
		f.Attributes = make(map[string]driver.Attribute, len(attributes))
		for name, a := range attributes {
			f.Attributes[name] = toAttribute(a)
		}
	}
	return f
}

func fromAttribute(a driver.Attribute) *structs.Attribute {
	m := &structs.Attribute{Unit: a.Unit}
	switch value := a.Value.(type) {
	case string:
		m.Value = &structs.Attribute_StringVal{StringVal: text(value)}
	case bool:
		m.Value = &structs.Attribute_BoolVal{BoolVal: value}
	case int64:
		m.Value = &structs.Attribute_IntVal{IntVal: value}
	case float64:
		m.Value = &structs.Attribute_FloatVal{FloatVal: value}
	}
	return m
}

func toAttribute(m *structs.Attribute) driver.Attribute {
	a := driver.Attribute{Unit: m.GetUnit()}
	switch value := m.GetValue().(type) {
	case *structs.Attribute_StringVal:
		a.Value = value.StringVal
	case *structs.Attribute_BoolVal:
		a.Value = value.BoolVal
	case *structs.Attribute_IntVal:
		a.Value = value.IntVal
	case *structs.Attribute_FloatVal:
		a.Value = value.FloatVal
	}
	return a
}

// FromCapabilities returns the message of what a driver can do.
func FromCapabilities(c *driver.Capabilities) *drivers.DriverCapabilities {
	m := &drivers.DriverCapabilities{
		SendSignals: c.SendSignals,
		Exec:        c.Exec,
		FsIsolation: drivers.DriverCapabilities_FSIsolation(c.FSIsolation),
		NetworkIsolationModes: each(c.NetworkModes,
			func(mode driver.NetworkMode) drivers.NetworkIsolationSpec_NetworkIsolationMode {
				return drivers.NetworkIsolationSpec_NetworkIsolationMode(mode)
			}),
		MustCreateNetwork:    c.MustCreateNetwork,
		DisableLogCollection: c.DisableLogCollection,
		DynamicWorkloadUsers: c.DynamicWorkloadUsers,
	}
	if c.NoMounts {
		m.MountConfigs = drivers.DriverCapabilities_NO_MOUNTS
	}
	return m
}

// ToCapabilities returns the capabilities of a message.
func ToCapabilities(m *drivers.DriverCapabilities) *driver.Capabilities {
	return &driver.Capabilities{
		SendSignals: m.GetSendSignals(),
		Exec:        m.GetExec(),
		FSIsolation: driver.FSIsolation(m.GetFsIsolation()),
		NetworkModes: each(m.GetNetworkIsolationModes(),
			func(mode drivers.NetworkIsolationSpec_NetworkIsolationMode) driver.NetworkMode {
				return driver.NetworkMode(mode)
			}),
		MustCreateNetwork:    m.GetMustCreateNetwork(),
		NoMounts:             m.GetMountConfigs() == drivers.DriverCapabilities_NO_MOUNTS,
		DisableLogCollection: m.GetDisableLogCollection(),
		DynamicWorkloadUsers: m.GetDynamicWorkloadUsers(),
	}
}
