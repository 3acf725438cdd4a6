// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats/kernel"
)

// mostCPUs is how many the system calls here know of.
const mostCPUs = 1024

// affinity returns the CPUs that a thread may use; 0 is the calling one. ok is false if that cannot be read.
func affinity(tid int) (cpus []int, ok bool) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(tid, &set) != nil {
		return nil, false
	}
	for cpu := range mostCPUs {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, true
}

func setAffinity(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(tid, &set))
}

// within reports whether a has no CPU that b does not have.
func within(a, b []int) bool {
	return !slices.ContainsFunc(a, func(cpu int) bool { return !slices.Contains(b, cpu) })
}

// lend binds the calling thread, which is in the task's groups of version 1, to the CPUs of the task if what it forks
// would not get them from its group: those of a parent that taskset(1) has bound stay bound, too.
func (h *heldCPUs) lend(cloned bool) {
	now, ok := affinity(0)
	if !ok || slices.Equal(now, h.wanted()) || cloned && h.cloned && within(h.list, now) {
		return
	}
	_ = setAffinity(0, h.wanted()) // Hold reads what came of it
}

// Hold reads back from a process that was started in the group that it is there, and on which CPUs. What it does not
// have is applied to the process itself, or it is an error. What the process has changed itself meanwhile stays.
func (g *Group) Hold(host kernel.FS, pid int) error {
	if g.limits != nil {
		if err := errors.Join(g.holdGroups(host, pid), holdPolicy(g.limits, pid)); err != nil {
			return err
		}
	}
	return g.cpus.hold(pid)
}

func (h *heldCPUs) hold(pid int) error {
	if len(h.wanted()) == 0 {
		return nil
	}
	now, ok := affinity(pid)
	if !ok || within(now, h.wanted()) {
		return nil
	}
	err := setAffinity(pid, h.wanted())
	if len(h.list) == 0 {
		return nil // a group above may have none of them
	}
	if now, ok = affinity(pid); ok && !within(now, h.list) {
		return errors.Join(newHostError("cpuset %s cannot be applied here: the task runs on the CPUs %s",
			FormatCPUs(h.list), FormatCPUs(now)), err)
	}
	return nil
}

// holdPolicy rejects a limit on CPU time that the scheduling policy of a process takes no notice of. That of a
// reservation (shares) is not one.
func holdPolicy(l *proto.Limits, pid int) error {
	if l.CpuCores == nil && l.CpuWeight == nil {
		return nil
	}
	attributes, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		return nil //nolint:nilerr // it has ended
	}
	switch attributes.Policy {
	case unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_DEADLINE:
		return newHostError("CPU limit cannot be applied here: the task has a real-time priority; " +
			"start it without one (chrt --other 0)")
	}
	return nil
}

// holdGroups moves a process into the groups that it should have been started in, if it is still in those of this
// process, as with a clone3(2) that takes no notice of groups.
func (g *Group) holdGroups(host kernel.FS, pid int) error {
	its, err := os.ReadFile(filepath.Join(host.Proc, strconv.Itoa(pid), "cgroup"))
	own, ownErr := os.ReadFile(filepath.Join(host.Proc, "self/cgroup"))
	if err != nil || ownErr != nil {
		return nil //nolint:nilerr // it has ended
	}
	for line := range strings.Lines(string(its)) { // ID:CONTROLLERS:PATH, cgroups(7)
		if !strings.Contains("\n"+string(own), "\n"+line) {
			continue
		}
		_, rest, _ := strings.Cut(line, ":")
		names, _, _ := strings.Cut(rest, ":")
		controller, _, _ := strings.Cut(names, ",")
		dir, ours := g.V2, g.executor.V2
		if controller != "" {
			dir, ours = g.V1[controller], g.executor.V1[controller]
		}
		if dir == "" || dir == ours {
			continue
		}
		if err := write(dir, procsFile, strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			return newHostError("the task was not started in %s, and cannot be moved there: %v", dir, err)
		}
	}
	return nil
}
