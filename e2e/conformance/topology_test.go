// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/node"
)

func TestTopology(t *testing.T) {
	one := []driver.Core{{CoreID: 0, GuessedSpeed: 2596}, {CoreID: 2, GuessedSpeed: 2596}}
	single := &driver.Distances{Dimension: 1, Values: []uint32{10}}
	tests := map[string]struct {
		files map[string]string
		want  *driver.Topology
	}{
		"nothing to read": {nil, &driver.Topology{NodeIDs: []uint32{0}, Distances: single, Cores: one}},
		"two sockets": {
			map[string]string{
				"node/online": "0-1\n", "node/node0/cpulist": "0-1\n", "node/node1/cpulist": "2-3,6\n",
				"node/node0/distance": "10 21\n", "node/node1/distance": "21 10\n",
				"cpu/cpu2/topology/physical_package_id": "1\n",
				"cpu/cpu2/cpufreq/base_frequency":       "2100000\n", "cpu/cpu2/cpufreq/cpuinfo_max_freq": "3700000\n",
			},
			&driver.Topology{
				NodeIDs: []uint32{0, 1}, Distances: &driver.Distances{Dimension: 2, Values: []uint32{10, 21, 21, 10}},
				Cores: []driver.Core{
					{CoreID: 0, GuessedSpeed: 2596},
					{CoreID: 2, NodeID: 1, SocketID: 1, BaseSpeed: 2100, MaxSpeed: 3700, GuessedSpeed: 2596},
				},
			},
		},
		"nodes with a gap": {
			map[string]string{
				"node/online": "0,2\n", "node/node2/cpulist": "2\n", "node/node0/distance": "10 21\n", "node/node2/distance": "21 10\n",
			},
			&driver.Topology{NodeIDs: []uint32{0}, Distances: single, Cores: one},
		},
		"nonsense": {
			map[string]string{"node/online": "5-1\n", "cpu/cpu0/topology/physical_package_id": "-1\n"},
			&driver.Topology{NodeIDs: []uint32{0}, Distances: single, Cores: one},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sys := t.TempDir()
			for file, text := range tt.files {
				path := filepath.Join(sys, "devices/system", file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := topology(sys, node.Resources{Cores: []int{0, 2}, CoreMHz: 2596.1})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
