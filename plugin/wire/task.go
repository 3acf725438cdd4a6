// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// FromTaskConfig returns the message of a task; nil of nil.
func FromTaskConfig(c *driver.TaskConfig) *drivers.TaskConfig {
	if c == nil {
		return nil
	}
	return &drivers.TaskConfig{
		Id:                   c.ID,
		Name:                 c.Name,
		MsgpackDriverConfig:  c.DriverConfig,
		Env:                  c.Env,
		DeviceEnv:            c.DeviceEnv,
		Resources:            fromResources(c.Resources),
		Mounts:               each(c.Mounts, fromMount),
		Devices:              each(c.Devices, fromDevice),
		User:                 c.User,
		AllocDir:             c.AllocDir,
		StdoutPath:           c.StdoutPath,
		StderrPath:           c.StderrPath,
		TaskGroupName:        c.TaskGroupName,
		JobName:              c.JobName,
		AllocId:              c.AllocID,
		NetworkIsolationSpec: FromNetworkIsolation(c.Network),
		Dns:                  fromDNS(c.DNS),
		JobId:                c.JobID,
		Namespace:            c.Namespace,
		NodeName:             c.NodeName,
		NodeId:               c.NodeID,
		ParentJobId:          c.ParentJobID,
	}
}

// ToTaskConfig returns the task of a message; nil of nil.
func ToTaskConfig(m *drivers.TaskConfig) *driver.TaskConfig {
	if m == nil {
		return nil
	}
	return &driver.TaskConfig{
		ID:            m.GetId(),
		Name:          m.GetName(),
		DriverConfig:  m.GetMsgpackDriverConfig(),
		Env:           m.GetEnv(),
		DeviceEnv:     m.GetDeviceEnv(),
		Resources:     toResources(m.GetResources()),
		Mounts:        each(m.GetMounts(), toMount),
		Devices:       each(m.GetDevices(), toDevice),
		User:          m.GetUser(),
		AllocDir:      m.GetAllocDir(),
		StdoutPath:    m.GetStdoutPath(),
		StderrPath:    m.GetStderrPath(),
		TaskGroupName: m.GetTaskGroupName(),
		JobName:       m.GetJobName(),
		AllocID:       m.GetAllocId(),
		Network:       ToNetworkIsolation(m.GetNetworkIsolationSpec()),
		DNS:           toDNS(m.GetDns()),
		JobID:         m.GetJobId(),
		Namespace:     m.GetNamespace(),
		NodeName:      m.GetNodeName(),
		NodeID:        m.GetNodeId(),
		ParentJobID:   m.GetParentJobId(),
	}
}

// each converts a list; an empty one becomes nil, as it comes from the wire.
func each[From, To any](list []From, convert func(From) To) []To {
	if len(list) == 0 {
		return nil
	}
	converted := make([]To, len(list))
	for i, from := range list {
		converted[i] = convert(from)
	}
	return converted
}

func fromMount(m driver.Mount) *drivers.Mount {
	return &drivers.Mount{
		TaskPath: m.TaskPath, HostPath: m.HostPath, Readonly: m.Readonly,
		PropagationMode: m.PropagationMode, SelinuxLabel: m.SELinuxLabel, RequestName: m.RequestName,
	}
}

func toMount(m *drivers.Mount) driver.Mount {
	return driver.Mount{
		TaskPath: m.GetTaskPath(), HostPath: m.GetHostPath(), Readonly: m.GetReadonly(),
		PropagationMode: m.GetPropagationMode(), SELinuxLabel: m.GetSelinuxLabel(), RequestName: m.GetRequestName(),
	}
}

func fromDevice(d driver.Device) *drivers.Device {
	return &drivers.Device{TaskPath: d.TaskPath, HostPath: d.HostPath, CgroupPermissions: d.CgroupPermissions}
}

func toDevice(m *drivers.Device) driver.Device {
	return driver.Device{
		TaskPath: m.GetTaskPath(), HostPath: m.GetHostPath(), CgroupPermissions: m.GetCgroupPermissions(),
	}
}

// FromNetworkIsolation returns the message of a network namespace; nil of nil.
func FromNetworkIsolation(n *driver.NetworkIsolation) *drivers.NetworkIsolationSpec {
	if n == nil {
		return nil
	}
	m := &drivers.NetworkIsolationSpec{
		Mode:   drivers.NetworkIsolationSpec_NetworkIsolationMode(n.Mode),
		Path:   n.Path,
		Labels: n.Labels,
	}
	if n.Hosts != nil {
		m.HostsConfig = &drivers.HostsConfig{Hostname: n.Hosts.Hostname, Address: n.Hosts.Address}
	}
	return m
}

// ToNetworkIsolation returns the network namespace of a message; nil of nil.
func ToNetworkIsolation(m *drivers.NetworkIsolationSpec) *driver.NetworkIsolation {
	if m == nil {
		return nil
	}
	n := &driver.NetworkIsolation{Mode: driver.NetworkMode(m.GetMode()), Path: m.GetPath(), Labels: m.GetLabels()}
	if hosts := m.GetHostsConfig(); hosts != nil {
		n.Hosts = &driver.HostsEntry{Hostname: hosts.GetHostname(), Address: hosts.GetAddress()}
	}
	return n
}

func fromDNS(d *driver.DNS) *drivers.DNSConfig {
	if d == nil {
		return nil
	}
	return &drivers.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
}

func toDNS(m *drivers.DNSConfig) *driver.DNS {
	if m == nil {
		return nil
	}
	return &driver.DNS{Servers: m.GetServers(), Searches: m.GetSearches(), Options: m.GetOptions()}
}
