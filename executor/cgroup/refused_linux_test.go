// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// captured is a folder with some of a group's files, as a kernel could have them.
func captured(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// TestKernelsThatLackLimits are kernels that are not at hand.
func TestKernelsThatLackLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		v1     bool
		files  map[string]string
		limits *proto.Limits
		want   string
	}{
		{
			"v2 without swap accounting", false,
			map[string]string{"cgroup.controllers": "memory\n", "memory.max": "max\n"},
			&proto.Limits{MemorySwapMaxBytes: new(int64(0))},
			"the kernel does not account swap (no memory.swap.max); boot with swapaccount=1",
		},
		{
			"v1 without swap accounting", true,
			map[string]string{"memory.limit_in_bytes": "8192\n"},
			&proto.Limits{MemoryMaxBytes: new(int64(4096)), MemorySwapMaxBytes: new(int64(0))},
			"no memory.memsw.limit_in_bytes",
		},
		{
			"v2 without group kills", false,
			map[string]string{"cgroup.controllers": "memory\n"},
			&proto.Limits{MemoryOomGroup: new(true)},
			"memory.oom.group: no such file or directory (supported since Linux 4.19)",
		},
		{
			"v2 without the controller", false,
			map[string]string{"cgroup.controllers": "cpu pids\n"},
			&proto.Limits{MemoryHighBytes: new(int64(4096))},
			"memory.high 4 KiB cannot be applied here: the task's cgroup has no memory controller",
		},
		{
			"a limit that is not kept", true,
			map[string]string{"memory.limit_in_bytes": "9223372036854771712\n"},
			&proto.Limits{MemoryMaxBytes: new(int64(4096))},
			"wrote 4096, read back 4096372036854771712",
		},
	} {
		dir := captured(t, test.files)
		g := &Group{Cgroup: procstats.Cgroup{V2: dir}}
		if test.v1 {
			g.Cgroup = procstats.Cgroup{V1: map[string]string{"memory": dir}}
		}
		_, err := g.SetLimits(kernel.HostFS(), test.limits)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if refused := errors.Is(err, errors.ErrUnsupported); refused == (test.limits.MemoryOomGroup != nil) {
			t.Errorf("%s: %v: the host's doing is %v", test.name, err, refused)
		}
	}
}

// TestSwapOnV1 keeps the limit on both at or above the one on memory at any time, as the kernel wants it.
func TestSwapOnV1(t *testing.T) {
	dir := captured(t, map[string]string{"memory.limit_in_bytes": "4096\n", "memory.memsw.limit_in_bytes": "8192\n", "memory.stat": ""})
	g := &Group{Cgroup: procstats.Cgroup{V1: map[string]string{"memory": dir}}}
	s := &setter{group: g, host: kernel.HostFS(), limits: &proto.Limits{MemoryMaxBytes: new(int64(1 << 20)), MemorySwapMaxBytes: new(int64(1 << 20))}}
	must(t, errors.Join(s.memory(), s.swap()))
	for file, want := range map[string]int64{"memory.limit_in_bytes": 1 << 20, swapLimitV1: 2 << 20} {
		if held, err := readNumber(dir, file); err != nil || held != want {
			t.Errorf("%s: %d (%v), want %d", file, held, err, want)
		}
	}
}

func TestReadIOMax(t *testing.T) {
	dir := captured(t, map[string]string{ioMax: "8:16 rbps=2097152 wbps=max riops=max wiops=120\n254:1 rbps=1 wbps=2 riops=3 wiops=4\n"})
	for _, test := range []struct {
		device, key string
		want        int64
		ok          bool
	}{
		{"8:16", "rbps", 2097152, true},
		{"8:16", "wiops", 120, true},
		{"8:16", "wbps", 0, false},
		{"254:1", "wbps", 2, true},
		{"54:1", "wbps", 0, false},
		{"8:1", "rbps", 0, false},
	} {
		if got, ok := readIOMax(dir, test.device, test.key); got != test.want || ok != test.ok {
			t.Errorf("%s %s: %d %v, want %d %v", test.device, test.key, got, ok, test.want, test.ok)
		}
	}
}
