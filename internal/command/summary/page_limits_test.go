// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestLimitsSummary(t *testing.T) {
	r := &record.Record{
		Surroundings: record.Surroundings{Cgroup: &record.Cgroup{V2: "/sys/fs/cgroup/a/task"}, Limits: []record.Limit{
			{
				Name: "cgroup_memory_max_bytes", Requested: new(100e6), Effective: new(99_999_744.0),
				Where: "/sys/fs/cgroup/a/task",
			},
			{Name: "cgroup_cpu_quota_cores", Requested: new(1.5), Effective: new(0.5), Where: "/sys/fs/cgroup/a"},
			{
				Name: "cpuset.cpus", Requested: new(2.0), Effective: new(2.0), RequestedText: "0,1",
				EffectiveText: "0-1", Where: "/sys/fs/cgroup/a/task",
			},
			{Name: "cgroup_pids_max", Effective: new(50.0), Where: "/sys/fs/cgroup/a"},
			{Name: "io.max 8:0 wbps", Requested: new(1048576.0), Effective: new(1048576.0), Where: "/sys/fs/cgroup/a/task"},
		}},
	}
	const want = "memory 95.4 MiB, cpu 1.50 cores (0.50 cores by /sys/fs/cgroup/a), cpuset 0,1, io.max 8:0 wbps 1 MiB"
	testkit.Equal(t, limitsSummary(r), want, "result")
	testkit.Equal(t, limitsSummary(&record.Record{}), "", "no limits")
	p := NewPage(cli.Palette{}, "x", r)
	p.section("Limits", LimitTable(r))
	for _, want := range []string{"95.4 MiB", "0-1", procstats.NoValue, "/sys/fs/cgroup/a\n"} {
		if !strings.Contains(p.String(), want) {
			t.Errorf("%q is not in\n%s", want, p.String())
		}
	}
}
