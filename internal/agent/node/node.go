// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package node says what machine the agent runs on and what the machine as a whole uses.
package node

import (
	"fmt"
	"time"
)

// Node is the one machine of this agent.
type Node struct {
	// ID is a UUID, made once and kept in the data directory.
	ID         string
	Name       string
	Datacenter string
	Region     string
	// Attributes are facts by dotted names, as constraints of jobs call them: cpu.arch, kernel.name, os.name.
	Attributes map[string]string
	// Meta is the operator's.
	Meta      map[string]string
	Resources Resources
	Drivers   map[string]Driver
	StartedAt time.Time
}

// Names are the node's facts by the names that job files have for them: attr.kernel.name, meta.rack, node.unique.name.
func (n *Node) Names() map[string]string {
	names := map[string]string{
		"node.unique.id": n.ID, "node.unique.name": n.Name, "node.datacenter": n.Datacenter, "node.region": n.Region,
		"node.class": "", "node.pool": "default",
	}
	for name, value := range n.Attributes {
		names["attr."+name] = value
	}
	for driver, d := range n.Drivers {
		if !d.Detected {
			continue
		}
		for name, value := range d.Attributes {
			names["attr."+name] = fmt.Sprint(value)
		}
		names["attr.driver."+driver] = "1"
	}
	for name, value := range n.Meta {
		names["meta."+name] = value
	}
	return names
}

// Resources is what the machine has.
type Resources struct {
	// Cores are those that this process may run on.
	Cores []int
	// CoreMHz is the mean speed of a core; 0 if not known.
	CoreMHz float64
	// MemoryBytes and DiskBytes are 0 if not known. The disk is that of the data directory.
	MemoryBytes, DiskBytes int64
}

// TotalMHz is the speed of all cores together, 0 if not known.
func (r Resources) TotalMHz() float64 { return r.CoreMHz * float64(len(r.Cores)) }

// Driver is what is known of a task driver.
type Driver struct {
	Name       string
	Detected   bool
	Healthy    bool
	Reason     string
	Attributes map[string]any
	UpdatedAt  time.Time
}

// Stats is what the machine uses.
type Stats struct {
	Time   time.Time
	Uptime time.Duration
	Memory Memory
	CPU    []CPU
	Disks  []Disk
	// DataDisk is the file system of the data directory.
	DataDisk *Disk
	// CPUTicksConsumed is the use of all cores in MHz; 0 if the speed is not known.
	CPUTicksConsumed float64
	// Reasons say by part (memory, cpu, disk, uptime) what could not be read.
	Reasons map[string]string
}

// Busy is how many cores were busy.
func (s *Stats) Busy() (cores float64) {
	for _, c := range s.CPU {
		cores += c.TotalPercent / 100
	}
	return cores
}

// Memory is in bytes.
type Memory struct{ Total, Available, Used, Free uint64 }

// CPU is one core since the reading before, in percent of it, in the JSON of Nomad's API.
type CPU struct {
	Name                                    string `json:"CPU"`
	Idle, System, Total, TotalPercent, User float64
}

// Disk is a file system; sizes are bytes.
type Disk struct {
	Device, Mountpoint             string
	Size, Used, Available          uint64
	UsedPercent, InodesUsedPercent float64
}
