// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestKillsSoFar holds that a kill before the first sample is one more than was counted.
func TestKillsSoFar(t *testing.T) {
	v1, v2 := t.TempDir(), t.TempDir()
	write := func(name, text string) { testkit.Must(t, os.WriteFile(name, []byte(text), 0o600)) }
	write(filepath.Join(v1, "memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
	write(filepath.Join(v2, "memory.events"), "low 0\nhigh 0\nmax 113\noom 3\noom_kill 6\noom_group_kill 1\n")
	ids := []procstats.ID{
		procstats.CgroupMemoryEventsOOM, procstats.CgroupMemoryEventsOOMKill, procstats.CgroupMemoryEventsOOMGroupKill,
	}
	for name, test := range map[string]struct {
		cgroup procstats.Cgroup
		want   []float64
	}{
		"v2":                 {procstats.Cgroup{V2: v2}, []float64{3, 6, 1}},
		"v1":                 {procstats.Cgroup{V1: map[string]string{"memory": v1}}, []float64{-1, 1, -1}},
		"v1 beside v2":       {procstats.Cgroup{V2: v2, V1: map[string]string{"memory": v1}}, []float64{-1, 1, -1}},
		"without controller": {procstats.Cgroup{V2: t.TempDir()}, []float64{-1, -1, -1}},
	} {
		var got []float64
		for _, id := range ids {
			n, ok := killsSoFar(test.cgroup).Task.Number(id)
			if !ok {
				n = -1
			}
			got = append(got, n)
		}
		testkit.Diff(t, name, test.want, got)
	}
}

// TestName holds that a watched cgroup has a name at every depth.
func TestName(t *testing.T) {
	for above, want := range map[string]string{"/": "/", "/a": "/a", "/a/b": "/a/b"} {
		a := &Alloc{JobID: above, persisted: state.Allocation{JobType: allocation.Watch}}
		testkit.Equal(t, a.Name(), want, "below %s", above)
	}
}
