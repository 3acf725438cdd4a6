// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// captured is a folder with some of a group's files, as a kernel could have them.
func captured(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
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
	testkit.Diff(t, "limits", map[string]float64{
		"io.max 8:16 rbps": 2097152, "io.max 8:16 wiops": 120,
		"io.max 254:1 rbps": 1, "io.max 254:1 wbps": 2, "io.max 254:1 riops": 3, "io.max 254:1 wiops": 4,
	}, readIOMax(dir))
}

// TestIOLimitsOfAncestors holds that the lowest limit of a device counts, of whichever group, and one that was not
// requested, too.
func TestIOLimitsOfAncestors(t *testing.T) {
	root := captured(t, map[string]string{
		ioMax: "8:0 rbps=100 wbps=max riops=max wiops=7\n", "above/" + ioMax: "8:0 rbps=300 wbps=50 riops=max wiops=9\n",
		"above/own/" + controllersFile: "io\n", "above/own/" + ioMax: "",
	})
	own := filepath.Join(root, "above/own")
	limits := &proto.Limits{Io: []*proto.IOLimit{{Device: "8:0", ReadBytesPerSecond: new(int64(200)), WriteOperationsPerSecond: new(int64(3))}}}
	s := &setter{group: &Group{Cgroup: procstats.Cgroup{V2: own}}, mounts: []kernel.CgroupMount{{Version: 2, Point: root}}, limits: limits}
	must(t, s.io())
	var got []string
	for _, l := range s.held {
		requested := "none"
		if l.Requested != nil {
			requested = fmt.Sprint(*l.Requested)
		}
		got = append(got, fmt.Sprintf("%s: %s, %v in %s", l.Name, requested, *l.Effective, strings.TrimPrefix(l.Where, root)))
	}
	testkit.Diff(t, "limits", []string{
		"io.max 8:0 rbps: 200, 100 in ", "io.max 8:0 wbps: none, 50 in /above", "io.max 8:0 wiops: 3, 3 in /above/own",
	}, got)
}
