// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/internal/agent/node"
)

// localDistance is the distance of a NUMA node from itself, ACPI specification, "System Locality Information Table".
const localDistance = 10

// topology returns the usable cores as drivers are told of them. sys is where sysfs is mounted. Drivers take it for
// granted that there is one: what cannot be read there is a machine of one socket and one NUMA node.
func topology(sys string, r node.Resources) *driver.Topology {
	nodes := filepath.Join(sys, "devices/system/node")
	nodeOf := map[int]uint32{}
	t := &driver.Topology{}
	for _, id := range listed(filepath.Join(nodes, "online")) {
		t.NodeIDs = append(t.NodeIDs, uint32(id))
		for _, core := range listed(filepath.Join(nodes, "node"+strconv.Itoa(id), "cpulist")) {
			nodeOf[core] = uint32(id)
		}
	}
	t.Distances = distances(nodes, t.NodeIDs)
	if t.Distances == nil {
		t.NodeIDs, t.Distances = []uint32{0}, &driver.Distances{Dimension: 1, Values: []uint32{localDistance}}
		clear(nodeOf)
	}
	for _, id := range r.Cores {
		cpu := filepath.Join(sys, "devices/system/cpu", "cpu"+strconv.Itoa(id))
		const kHz = 1000
		t.Cores = append(t.Cores, driver.Core{
			SocketID: uint32(number(filepath.Join(cpu, "topology/physical_package_id"))), NodeID: nodeOf[id], CoreID: uint32(id),
			BaseSpeed:    number(filepath.Join(cpu, "cpufreq/base_frequency")) / kHz,
			MaxSpeed:     number(filepath.Join(cpu, "cpufreq/cpuinfo_max_freq")) / kHz,
			GuessedSpeed: uint64(r.CoreMHz),
		})
	}
	return t
}

// distances reads the square of the nodes' distances; nil if it is not whole.
func distances(nodes string, ids []uint32) *driver.Distances {
	d := &driver.Distances{Dimension: uint32(len(ids))}
	for i, id := range ids {
		text, err := os.ReadFile(filepath.Join(nodes, "node"+strconv.Itoa(int(id)), "distance"))
		row := strings.Fields(string(text))
		// The square's rows are found by the nodes' numbers, which therefore have no gaps.
		if err != nil || len(row) != len(ids) || int(id) != i {
			return nil
		}
		for _, field := range row {
			v, err := strconv.ParseUint(field, 10, 32)
			if err != nil {
				return nil
			}
			d.Values = append(d.Values, uint32(v))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return d
}

// number reads a file with one number; 0, which stands for not known in a topology, if that cannot be done.
func number(path string) uint64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0
	}
	return v
}

// listed reads a file with a list as 0-3,7, cpuset(7); nil if there is none.
func listed(path string) []int {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	all, err := cgroup.ParseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return nil
	}
	return all
}
