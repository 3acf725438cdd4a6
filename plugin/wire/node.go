// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
)

// FromNode returns the message of what a host says of its machine; nil of nil.
func FromNode(n *driver.Node) *base.NomadConfig {
	if n == nil {
		return nil
	}
	return &base.NomadConfig{Driver: &base.NomadDriverConfig{
		ClientMinPort: n.MinPort,
		ClientMaxPort: n.MaxPort,
		Topology:      fromTopology(n.Topology),
	}}
}

// ToNode returns what a host says of its machine; nil of nil.
func ToNode(m *base.NomadConfig) *driver.Node {
	if m.GetDriver() == nil {
		return nil
	}
	return &driver.Node{
		MinPort:  m.GetDriver().GetClientMinPort(),
		MaxPort:  m.GetDriver().GetClientMaxPort(),
		Topology: toTopology(m.GetDriver().GetTopology()),
	}
}

func fromTopology(t *driver.Topology) *base.ClientTopology {
	if t == nil {
		return nil
	}
	m := &base.ClientTopology{
		NodeIds:                t.NodeIDs,
		Cores:                  each(t.Cores, fromCore),
		OverrideTotalCompute:   t.OverrideTotalCompute,
		OverrideWitholdCompute: t.OverrideWithheldCompute,
	}
	if t.Distances != nil {
		m.Distances = &base.ClientTopologySLIT{Dimension: t.Distances.Dimension, Values: t.Distances.Values}
	}
	return m
}

func toTopology(m *base.ClientTopology) *driver.Topology {
	if m == nil {
		return nil
	}
	t := &driver.Topology{
		NodeIDs:                 m.GetNodeIds(),
		Cores:                   each(m.GetCores(), toCore),
		OverrideTotalCompute:    m.GetOverrideTotalCompute(),
		OverrideWithheldCompute: m.GetOverrideWitholdCompute(),
	}
	if distances := m.GetDistances(); distances != nil {
		t.Distances = &driver.Distances{Dimension: distances.GetDimension(), Values: distances.GetValues()}
	}
	return t
}

func fromCore(c driver.Core) *base.ClientTopologyCore {
	return &base.ClientTopologyCore{
		SocketId: c.SocketID, NodeId: c.NodeID, CoreId: c.CoreID,
		CoreGrade: base.CoreGrade(c.Grade), Disable: c.Disabled,
		BaseSpeed: c.BaseSpeed, MaxSpeed: c.MaxSpeed, GuessSpeed: c.GuessedSpeed,
	}
}

func toCore(m *base.ClientTopologyCore) driver.Core {
	return driver.Core{
		SocketID: m.GetSocketId(), NodeID: m.GetNodeId(), CoreID: m.GetCoreId(),
		Grade: driver.CoreGrade(m.GetCoreGrade()), Disabled: m.GetDisable(),
		BaseSpeed: m.GetBaseSpeed(), MaxSpeed: m.GetMaxSpeed(), GuessedSpeed: m.GetGuessSpeed(),
	}
}
