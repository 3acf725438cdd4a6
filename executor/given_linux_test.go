// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// givenGroup makes a group in every hierarchy, as an orchestrator does that keeps it over restarts.
func givenGroup(t *testing.T) *proto.CgroupPlacement {
	t.Helper()
	needRoot(t, "making cgroups")
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	given := &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN, V1: map[string]string{}}
	for _, mount := range mounts {
		if mount.ReadOnly || (mount.Version == 1 && len(mount.Controllers) == 0) {
			continue
		}
		dir, err := os.MkdirTemp(mount.Point, "tacho-given-")
		if errors.Is(err, fs.ErrPermission) {
			continue
		}
		must(t, err)
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("remove cgroup: %v", err)
			}
		})
		if mount.Version == 2 {
			given.V2 = dir
		}
		for _, controller := range mount.Controllers {
			if mount.Version == 1 && controller != "cpuset" { // a new one has no CPUs yet
				given.V1[controller] = dir
			}
		}
	}
	if given.V2 == "" && given.GetV1()["cpuacct"] == "" {
		t.Skip("no cgroup hierarchy that counts CPU time can be written to here")
	}
	return given
}

// TestGivenGroupUsedBefore runs a task that does nothing where another burned CPU before: its counters are its own, in
// the stream, in the headlines and in the record.
func TestGivenGroupUsedBefore(t *testing.T) {
	t.Parallel()
	given := givenGroup(t)
	runIn := func(script string) (*procstats.Sample, *record.Record) {
		f := start(t)
		f.run("mkfifo go; echo ready; read x < go; "+script, func(r *proto.LaunchRequest) {
			r.Cgroup, r.Record.IntervalNs = given, int64(50*time.Millisecond)
		})
		f.expect("ready")
		sample := testkit.Value(f.Sample(t.Context(), 0, true))(t)
		f.write("go", "\n")
		_, final := f.wait()
		return sample, final
	}
	_, first := runIn("timeout 1 sh -c 'while :; do :; done'")
	used := headline(t, first, procstats.HeadlineCPU)
	if used < 0.1 {
		t.Fatalf("the first task used %v s of CPU, too little to tell", used)
	}
	sample, second := runIn("exit 0")
	streamed, _ := sample.Task.Number(procstats.CgroupCPUUsage)
	recorded, _ := second.Measurements[procstats.CgroupCPUUsage.String()].(float64)
	cpu := headline(t, second, procstats.HeadlineCPU)
	if streamed >= used/2 || cpu >= used/2 || recorded != cpu || streamed > cpu {
		t.Errorf("after a task that used %v s: %v s in the stream, %v in the headline, %v in the record", used, streamed, cpu, recorded)
	}
	if p := second.Processes; p == nil || p.UnattributedCPUSeconds == nil || *p.UnattributedCPUSeconds >= used/2 {
		t.Errorf("the first task's time is unattributed of the second: %+v", p)
	}
}

// headline is a headline of a record.
func headline(t *testing.T, r *record.Record, id procstats.ID) float64 {
	t.Helper()
	h := r.Headline[id.String()]
	if h.Value == nil {
		t.Fatalf("no %s: %s", id, h.Reason)
	}
	return *h.Value
}
