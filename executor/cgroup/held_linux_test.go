// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestHold starts a process without its groups and on all CPUs, as a sandbox can: it is moved and bound. One that has
// moved itself meanwhile stays where it is, and without limits nothing is asked for.
func TestHold(t *testing.T) {
	needRoot(t)
	all, _ := affinity(0)
	if len(all) < 2 {
		t.Skip("there is one CPU")
	}
	host := kernel.HostFS()
	make := func(t *testing.T, name string, limits *proto.Limits) *Group {
		g, err := Create(Options{FS: host, ID: "hold-" + name})
		must(t, err)
		t.Cleanup(func() { testkit.NoError(t, g.Remove()) })
		if !g.Has("pids") {
			t.Skipf("no pids controller here: %v", g.Notes)
		}
		testkit.Value(g.SetLimits(host, limits))(t)
		return g
	}
	start := func(t *testing.T) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), planVariable+"=task")
		must(t, cmd.Start())
		t.Cleanup(func() {
			testkit.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
		})
		return cmd
	}
	inside := func(g *Group, pid int) bool {
		found := testkit.Value(kernel.FindCgroup(host, pid))(t)
		for controller, dir := range g.V1 {
			if found.V1[controller] != dir {
				return false
			}
		}
		return found.V2 == g.V2 || g.V2 == ""
	}
	t.Run("limited", func(t *testing.T) {
		g := make(t, "limited", &proto.Limits{PidsMax: new(int64(100))})
		g.cpus.list = all[:1]
		pid := start(t).Process.Pid
		testkit.NoError(t, g.Hold(host, pid))
		if now, _ := affinity(pid); !inside(g, pid) || !slices.Equal(now, all[:1]) {
			t.Errorf("inside %v, on the CPUs %v", inside(g, pid), now)
		}
		g.cpus.list = []int{mostCPUs - 1}
		if err := g.Hold(host, pid); err == nil || !strings.Contains(err.Error(), "cpuset 1023 cannot be applied here: the task runs on the CPUs ") {
			t.Errorf("of a CPU that is not there: %v", err)
		}
	})
	t.Run("real time", func(t *testing.T) {
		pid := start(t).Process.Pid
		quota, weight, shares := &proto.Limits{CpuCores: new(0.5)}, &proto.Limits{CpuWeight: new(int64(10))}, &proto.Limits{CpuShares: new(int64(10))}
		testkit.NoError(t, errors.Join(holdPolicy(quota, pid), holdPolicy(weight, pid)))
		attributes := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
		if err := unix.SchedSetAttr(pid, attributes, 0); err != nil {
			t.Skipf("no real-time priority here: %v", err)
		}
		for _, limits := range []*proto.Limits{quota, weight} {
			if err := holdPolicy(limits, pid); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "real-time priority") {
				t.Errorf("%v: %v", limits, err)
			}
		}
		testkit.NoError(t, holdPolicy(shares, pid))
	})
	t.Run("unbound", func(t *testing.T) {
		pid := start(t).Process.Pid
		for i, want := range [][]int{all, all[:1]} { // since Linux 6.2, and before
			testkit.NoError(t, (&heldCPUs{own: all[:1], unbinds: i == 1}).hold(pid))
			if now, _ := affinity(pid); !slices.Equal(now, want) {
				t.Errorf("on the CPUs %v, want %v", now, want)
			}
		}
	})
	t.Run("unlimited", func(t *testing.T) {
		g := make(t, "unlimited", nil)
		pid := start(t).Process.Pid
		if testkit.NoError(t, g.Hold(host, pid)); inside(g, pid) {
			t.Error("it was moved")
		}
	})
}
