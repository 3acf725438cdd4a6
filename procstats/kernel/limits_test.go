// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestCgroupAncestors(t *testing.T) {
	mounts := []CgroupMount{{Point: "/cg"}, {Point: "/cg/unified"}, {Point: "/cg/uni"}}
	tests := []struct {
		dir  string
		want []string
	}{
		{"/cg/unified/a/b", []string{"/cg/unified/a", "/cg/unified"}},
		{"/cg/unified/a/", []string{"/cg/unified"}},
		{"/cg/unified", nil},
		{"/cg/memory/a", []string{"/cg/memory", "/cg"}},
		{"/other/a", nil},
		{"", nil},
	}
	for _, test := range tests {
		testkit.Diff(t, fmt.Sprintf("ancestors of %q differ", test.dir), test.want, CgroupAncestors(test.dir, mounts))
	}
}

// limitTree writes files below a folder of its own, which stands for a mount point.
func limitTree(t *testing.T, files map[string]string) (root string, mounts []CgroupMount) {
	t.Helper()
	root = writeTree(t, files)
	must(t, os.MkdirAll(filepath.Join(root, "pod/task"), 0o755))
	return root, []CgroupMount{{Point: root, Root: "/"}}
}

const (
	unlimited4K  = "9223372036854771712\n" // pages of 4 KiB
	unlimited64K = "9223372036854710272\n" // pages of 64 KiB
)

func TestEffectiveMemoryMax(t *testing.T) {
	tests := map[string]struct {
		v1    bool
		files map[string]string
		want  int64
		dir   string // below the mount point; "none" for no limit
	}{
		"v2, own is lowest":      {files: map[string]string{"pod/task/memory.max": "100\n", "pod/memory.max": "200\n"}, want: 100, dir: "pod/task"},
		"v2, ancestor is lowest": {files: map[string]string{"pod/task/memory.max": "max\n", "pod/memory.max": "200\n"}, want: 200, dir: "pod"},
		"v2, equal: the nearest": {files: map[string]string{"pod/task/memory.max": "7\n", "pod/memory.max": "7\n"}, want: 7, dir: "pod/task"},
		"v2, zero is a limit":    {files: map[string]string{"pod/task/memory.max": "9\n", "pod/memory.max": "0\n"}, want: 0, dir: "pod"},
		"v2, none":               {files: map[string]string{"pod/task/memory.max": "max\n", "pod/memory.max": "max\n"}, dir: "none"},
		"v2, junk is no limit":   {files: map[string]string{"pod/task/memory.max": "-1\n", "pod/memory.max": "12"}, dir: "none"},
		"v1, own":                {v1: true, files: map[string]string{"pod/task/memory.limit_in_bytes": "4096\n", "pod/memory.limit_in_bytes": unlimited4K, "pod/task/memory.stat": "hierarchical_memory_limit 4096\n"}, want: 4096, dir: "pod/task"},
		"v1, ancestor":           {v1: true, files: map[string]string{"pod/task/memory.limit_in_bytes": unlimited64K, "pod/memory.limit_in_bytes": "8192\n", "memory.limit_in_bytes": unlimited64K}, want: 8192, dir: "pod"},
		"v1, hidden ancestor":    {v1: true, files: map[string]string{"pod/task/memory.limit_in_bytes": "8192\n", "pod/task/memory.stat": "cache 1\nhierarchical_memory_limit 4096\n"}, want: 4096, dir: ""},
		"v1, none":               {v1: true, files: map[string]string{"pod/task/memory.limit_in_bytes": unlimited4K, "pod/task/memory.stat": "hierarchical_memory_limit " + unlimited4K}, dir: "none"},
		"v1, not charged upward": {v1: true, files: map[string]string{"pod/task/memory.limit_in_bytes": "8192\n", "pod/memory.limit_in_bytes": "4096\n", "pod/memory.use_hierarchy": "0\n", "pod/task/memory.stat": "hierarchical_memory_limit 8192\n"}, want: 8192, dir: "pod/task"},
		"v1, charged upward":     {v1: true, files: map[string]string{"pod/task/memory.limit_in_bytes": "8192\n", "pod/memory.limit_in_bytes": "4096\n", "pod/memory.use_hierarchy": "1\n"}, want: 4096, dir: "pod"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root, mounts := limitTree(t, test.files)
			c := procstats.Cgroup{V2: filepath.Join(root, "pod/task")}
			if test.v1 {
				c = procstats.Cgroup{V2: root + "/elsewhere", V1: map[string]string{"memory": c.V2}}
			}
			got, dir, ok := EffectiveMemoryMax(c, mounts)
			want := filepath.Join(root, test.dir)
			if test.dir == "" || test.dir == "none" {
				want = ""
			}
			if got != test.want || dir != want || ok == (test.dir == "none") {
				t.Errorf("got %d from %q, %v; want %d from %q", got, dir, ok, test.want, want)
			}
		})
	}
}

func TestEffectiveCPUQuota(t *testing.T) {
	tests := map[string]struct {
		v1    bool
		files map[string]string
		want  float64
		dir   string
	}{
		"v2, ancestor":      {files: map[string]string{"pod/task/cpu.max": "max 100000\n", "pod/cpu.max": "150000 100000\n"}, want: 1.5, dir: "pod"},
		"v2, other periods": {files: map[string]string{"pod/task/cpu.max": "60000 50000\n", "pod/cpu.max": "100000 100000\n"}, want: 1, dir: "pod"},
		"v2, none":          {files: map[string]string{"pod/task/cpu.max": "max 100000\n"}},
		"v1, own":           {v1: true, files: map[string]string{"pod/task/cpu.cfs_quota_us": "50000\n", "pod/task/cpu.cfs_period_us": "100000\n", "pod/cpu.cfs_quota_us": "-1\n", "pod/cpu.cfs_period_us": "100000\n"}, want: 0.5, dir: "pod/task"},
		"v1, no period":     {v1: true, files: map[string]string{"pod/task/cpu.cfs_quota_us": "50000\n"}},
		"v1, period of 0":   {v1: true, files: map[string]string{"pod/task/cpu.cfs_quota_us": "50000\n", "pod/task/cpu.cfs_period_us": "0\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root, mounts := limitTree(t, test.files)
			c := procstats.Cgroup{V2: filepath.Join(root, "pod/task")}
			if test.v1 {
				c = procstats.Cgroup{V1: map[string]string{"cpu": c.V2}}
			}
			got, dir, ok := EffectiveCPUQuota(c, mounts)
			want := ""
			if test.dir != "" {
				want = filepath.Join(root, test.dir)
			}
			if got != test.want || dir != want || ok != (want != "") {
				t.Errorf("got %v from %q, %v; want %v from %q", got, dir, ok, test.want, want)
			}
		})
	}
}

func TestEffectivePidsMax(t *testing.T) {
	root, mounts := limitTree(t, map[string]string{"pod/task/pids.max": "100\n", "pod/pids.max": "20\n"})
	task := filepath.Join(root, "pod/task")
	for _, c := range []procstats.Cgroup{{V2: task}, {V1: map[string]string{"pids": task}}} {
		got, dir, ok := EffectivePidsMax(c, mounts)
		if got != 20 || dir != filepath.Dir(task) || !ok {
			t.Errorf("%s: got %d from %q, %v; want 20 from the parent", c.Layout(), got, dir, ok)
		}
	}
	if got, dir, ok := EffectivePidsMax(procstats.Cgroup{}, mounts); ok {
		t.Errorf("no cgroup: got %d from %q", got, dir)
	}
}

func TestReadNumber(t *testing.T) {
	tests := []struct {
		text string
		want int64
		ok   bool
	}{
		{"33554432\n", 32 << 20, true},
		{"0\n", 0, true},
		{"max\n", 0, false},
		{"9223372036854771712\n", 0, false}, // no limit on version 1
		{"-1\n", 0, false},
		{"", 0, false},
	}
	path := filepath.Join(t.TempDir(), "memory.max")
	if _, ok := ReadNumber(path); ok {
		t.Error("a file that does not exist has a number")
	}
	for _, test := range tests {
		must(t, os.WriteFile(path, []byte(test.text), 0o600))
		if got, ok := ReadNumber(path); ok != test.ok || ok && got != test.want {
			t.Errorf("%q: %d, %v, want %d, %v", test.text, got, ok, test.want, test.ok)
		}
	}
}
