// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

// Node is what a host says of the machine it runs on.
type Node struct {
	// MinPort and MaxPort bound the ports that the host gives to tasks; 0 where it does not say.
	MinPort, MaxPort uint32
	// Topology is nil where the host does not say.
	Topology *Topology
}

// Topology is a machine's cores.
type Topology struct {
	// NodeIDs are the NUMA nodes, Distances the distances between them.
	NodeIDs   []uint32
	Distances *Distances
	Cores     []Core
	// OverrideTotalCompute and OverrideWithheldCompute are the operator's words in MHz, 0 for none.
	OverrideTotalCompute, OverrideWithheldCompute uint64
}

// Distances are the distances between NUMA nodes, a square of Dimension rows.
type Distances struct {
	Dimension uint32
	Values    []uint32
}

// CoreGrade says what kind of core it is.
type CoreGrade int32

// The hosts' numbers.
const (
	PerformanceCore CoreGrade = 0
	EfficiencyCore  CoreGrade = 1
)

// Core is one core. Speeds are MHz, 0 where not known.
type Core struct {
	SocketID, NodeID, CoreID          uint32
	Grade                             CoreGrade
	Disabled                          bool
	BaseSpeed, MaxSpeed, GuessedSpeed uint64
}

// MHz returns the speed that a core is counted with: its base speed, else the highest, else what was guessed; 0
// where nothing is known.
func (c Core) MHz() uint64 {
	switch {
	case c.BaseSpeed > 0:
		return c.BaseSpeed
	case c.MaxSpeed > 0:
		return c.MaxSpeed
	}
	return c.GuessedSpeed
}

// CoreMHz returns the mean speed of the machine's cores in MHz, by the operator's word where there is one. ok is
// false where it is not known.
func (t *Topology) CoreMHz() (mhz float64, ok bool) {
	if t == nil || len(t.Cores) == 0 {
		return 0, false
	}
	total := t.OverrideTotalCompute
	if total == 0 {
		for _, core := range t.Cores {
			if core.MHz() == 0 {
				return 0, false
			}
			total += core.MHz()
		}
	}
	return float64(total) / float64(len(t.Cores)), true
}
