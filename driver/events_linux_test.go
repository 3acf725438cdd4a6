// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"testing"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestStartedText(t *testing.T) {
	limit := func(name string, effective float64, text string) *proto.EffectiveLimit {
		return &proto.EffectiveLimit{Name: name, Effective: &effective, EffectiveText: text}
	}
	none := &proto.EffectiveLimit{Name: "cgroup_memory_max_bytes"}
	memory, shares := limit("cgroup_memory_max_bytes", 64<<20, ""), limit("cgroup_cpu_shares", 100, "")
	for _, test := range []struct {
		want   string
		limits []*proto.EffectiveLimit
		notes  []string
	}{
		{"started pid 7", nil, nil},
		{"started pid 7", []*proto.EffectiveLimit{none}, nil},
		{"started pid 7, memory 64 MiB, cpu 100 shares", []*proto.EffectiveLimit{memory, shares}, nil},
		// The list, and not the number of CPUs in it.
		{"started pid 7, cpus 0,2-3", []*proto.EffectiveLimit{limit("cpuset.cpus", 3, "0,2-3")}, nil},
		{"started pid 7, pids_max 9, cpu weight 4", []*proto.EffectiveLimit{limit("cgroup_cpu_weight", 4, ""), limit("cgroup_pids_max", 9, "")}, nil},
		{"started pid 7; note: no memory limit here", nil, []string{"no memory limit here"}},
	} {
		a := attributesOf(procstats.ProcessID{PID: 3}, &proto.LaunchResponse{
			Main: &proto.ProcessID{Pid: 7}, Limits: test.limits, Notes: test.notes,
			Cgroup:  &proto.Cgroup{V2: "/sys/fs/cgroup/x"},
			Sources: []*proto.Source{{Name: "cgroup", Version: "v2", Available: true}},
		})
		testkit.Equal(t, startedText(a), test.want, "result")
		if a["cgroup"] != "/sys/fs/cgroup/x" || a["sources"] != "cgroup v2" {
			t.Errorf("annotations %v", a)
		}
	}
}
