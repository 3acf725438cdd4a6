// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	googleproto "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// setter writes the limits of one task.
type setter struct {
	group  *Group
	host   kernel.FS
	mounts []kernel.CgroupMount
	limits *proto.Limits
	held   []record.Limit
}

// SetLimits writes limits into the task's groups, before anything runs there, and reads them back. It returns the
// requested limits and those of ancestors. A limit that cannot be applied is an error with a remedy; it wraps
// errors.ErrUnsupported if the host cannot apply it. The group, which has some of the limits then, has to be removed.
func (g *Group) SetLimits(host kernel.FS, l *proto.Limits) ([]record.Limit, error) {
	l = cmp.Or(l, &proto.Limits{})
	if err := check(l, int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	if !g.Exists() && googleproto.Size(l) == 0 {
		return nil, nil
	}
	mounts, err := kernel.CgroupMounts(host)
	if err != nil {
		return nil, err
	}
	release := kernel.OSRelease(host)
	g.cpus.cloned, g.cpus.unbinds = release.AtLeast(6, 4), g.V2 != "" && !release.AtLeast(6, 2)
	if g.limits = nil; googleproto.Size(l) > 0 {
		g.limits = l
	}
	s := &setter{group: g, host: host, mounts: mounts, limits: l}
	for _, set := range []func() error{
		s.memory, s.memoryHigh, s.swap, s.oomGroup, s.quota, s.weight, s.cpuset, s.pids, s.io,
	} {
		if err := set(); err != nil {
			return nil, err
		}
	}
	return s.held, nil
}

// folder returns the folder with a controller's files for the task, and its version of cgroups. what names the limit
// in errors.
func (s *setter) folder(controller, what string) (dir string, version int, err error) {
	v1 := nameV1(controller)
	switch {
	case s.group.V1[v1] != "":
		return s.group.V1[v1], 1, nil
	case s.group.V2 != "" && s.group.Has(controller):
		return s.group.V2, 2, nil
	}
	lack := fmt.Sprintf("the task's cgroup has no %s controller", controller)
	if !s.group.Exists() {
		lack = "the task has no cgroup"
	}
	if len(s.group.Notes) > 0 {
		lack += " (" + strings.Join(s.group.Notes, "; ") + ")"
	}
	if !s.group.sought || s.group.Placement == InParent && mountedV1(s.mounts, v1) { // the notes say what is missing
		return "", 0, newHostError("%s cannot be applied here: %s", what, lack)
	}
	found, enable := Remedy{FS: s.host, Root: "/", Mounts: s.mounts}.Lack(controller)
	if found != "" {
		lack += ": " + found
	}
	if enable != "" {
		lack += "; to get it: " + enable
	}
	return "", 0, newHostError("%s cannot be applied here: %s", what, lack)
}

// hostError is a limit that this host cannot apply. It wraps errors.ErrUnsupported.
type hostError struct{ text string }

func (e *hostError) Error() string { return e.text }

func (e *hostError) Unwrap() error { return errors.ErrUnsupported }

func newHostError(format string, args ...any) error { return &hostError{fmt.Sprintf(format, args...)} }

// onV2 returns the error of a limit that only v2 has.
func onV2(what, instead string) error {
	return newHostError("%s cannot be applied here: cgroup v1 has no such limit; %s, "+
		"or boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2)", what, instead)
}

// add records a limit that was requested or is set.
func (s *setter) add(name string, requested *float64, effective float64, where string, set bool) {
	limit := record.Limit{Name: name, Requested: requested}
	if set {
		limit.Effective, limit.Where = &effective, procstats.EscapeName(where)
	}
	if requested != nil || set {
		s.held = append(s.held, limit)
	}
}

// addLowest adds the lowest limit of the task's group and those above it.
func (s *setter) addLowest(
	id procstats.ID, requested *float64,
	effective func(procstats.Cgroup, []kernel.CgroupMount) (limit int64, dir string, ok bool),
) {
	lowest, where, set := effective(s.group.Cgroup, s.mounts)
	s.add(id.String(), requested, float64(lowest), where, set)
}

func number(value *int64) *float64 {
	if value == nil {
		return nil
	}
	return new(float64(*value))
}

// write sets a limit in the folder of a controller, in one of two ways.
func (s *setter) write(controller, what string, v1, v2 func(dir string) error) error {
	dir, version, err := s.folder(controller, what)
	switch {
	case err != nil:
		return err
	case version == 1:
		return v1(dir)
	}
	return v2(dir)
}

// bytes sets a limit on memory, in one of two ways, and adds the lowest one.
func (s *setter) bytes(
	limit *int64, what, fileV2 string, v1 func(dir, what string) error, id procstats.ID,
	effective func(procstats.Cgroup, []kernel.CgroupMount) (limit int64, dir string, ok bool),
) error {
	if limit != nil {
		what += " " + procstats.Bytes.Text(float64(*limit))
		err := s.write("memory", what,
			func(dir string) error { return v1(dir, what) },
			func(dir string) error { return setBytes(dir, fileV2, *limit) })
		if err != nil {
			return err
		}
	}
	s.addLowest(id, number(limit), effective)
	return nil
}

func (s *setter) memory() error {
	return s.bytes(s.limits.MemoryMaxBytes, "memory limit", "memory.max", s.memoryV1, procstats.CgroupMemoryMax,
		kernel.EffectiveMemoryMax)
}

const swapLimitV1 = "memory.memsw.limit_in_bytes"

// memoryV1 sets the limit on memory and, if swap is limited too, the one on both together. The kernel requires the
// second to be at least the first at any time.
func (s *setter) memoryV1(dir, _ string) error {
	const file = "memory.limit_in_bytes"
	limit := *s.limits.MemoryMaxBytes
	if s.limits.MemorySwapMaxBytes == nil {
		return setBytes(dir, file, limit)
	}
	both := limit + *s.limits.MemorySwapMaxBytes
	if now, err := readNumber(dir, swapLimitV1); err == nil && now < limit {
		if err := setBytes(dir, swapLimitV1, both); err != nil {
			return err
		}
	}
	return setBytes(dir, file, limit)
}

func (s *setter) memoryHigh() error {
	onV1 := func(_, what string) error { return onV2(what, "use the hard limit") }
	return s.bytes(s.limits.MemoryHighBytes, "memory.high", "memory.high", onV1, procstats.CgroupMemoryHigh,
		kernel.EffectiveMemoryHigh)
}

// swap limits swap space; on v1 the limit on memory is already set.
func (s *setter) swap() error {
	limit := s.limits.MemorySwapMaxBytes
	if limit == nil {
		s.addLowest(procstats.CgroupMemorySwapMax, nil, kernel.EffectiveMemorySwapMax)
		return nil
	}
	what := "swap limit " + procstats.Bytes.Text(float64(*limit))
	dir, version, err := s.folder("memory", what)
	if err != nil {
		return err
	}
	file := "memory.swap.max"
	if version == 1 {
		file = swapLimitV1
	}
	if _, err := os.Lstat(filepath.Join(dir, file)); err != nil {
		return newHostError("%s cannot be applied here: the kernel does not account swap (no %s); boot with swapaccount=1",
			what, file)
	}
	if version == 2 {
		if err := setBytes(dir, file, *limit); err != nil {
			return err
		}
		s.addLowest(procstats.CgroupMemorySwapMax, number(limit), kernel.EffectiveMemorySwapMax)
		return nil
	}
	if s.limits.MemoryMaxBytes == nil {
		return newHostError("%s cannot be applied here: cgroup v1 limits memory and swap together; give a memory limit too",
			what)
	}
	both := *s.limits.MemoryMaxBytes + *limit
	if err := setBytes(dir, file, both); err != nil {
		return err
	}
	held, err := readNumber(dir, file)
	s.add(file, number(&both), float64(held), dir, err == nil)
	return err
}

func (s *setter) oomGroup() error {
	if s.limits.MemoryOomGroup == nil {
		return nil
	}
	const file = "memory.oom.group"
	dir, version, err := s.folder("memory", file)
	switch {
	case err != nil:
		return err
	case version == 1 && *s.limits.MemoryOomGroup:
		return onV2(file, "omit it")
	case version == 1:
		return nil
	}
	on := int64(0)
	if *s.limits.MemoryOomGroup {
		on = 1
	}
	if err := setNumber(dir, file, on, 1); err != nil {
		return fmt.Errorf("%w (supported since Linux 4.19)", err)
	}
	s.add(file, number(&on), float64(on), dir, true)
	return nil
}

func (s *setter) pids() error {
	if limit := s.limits.PidsMax; limit != nil {
		dir, version, err := s.folder("pids", "limit of "+procstats.Counted(*limit, "process", "processes"))
		if err != nil {
			return err
		}
		if version == 1 && *limit < 2 {
			// The thread that starts the task is a member while it forks.
			return newHostError("limit of 1 process cannot be applied here: the minimum on cgroup v1 is 2")
		}
		if err := setNumber(dir, "pids.max", *limit, 1); err != nil {
			return err
		}
	}
	s.addLowest(procstats.CgroupPidsMax, number(s.limits.PidsMax), kernel.EffectivePidsMax)
	return nil
}

// setBytes sets a limit on memory, which the kernel keeps in whole pages.
func setBytes(dir, file string, value int64) error {
	return setNumber(dir, file, value, int64(os.Getpagesize()))
}

// setNumber writes a number into a file and reads it back; the kernel may round it down to a multiple of grain.
func setNumber(dir, file string, value, grain int64) error {
	return set(dir, file, strconv.FormatInt(value, 10), func() (string, bool, error) {
		held, err := readNumber(dir, file)
		return strconv.FormatInt(held, 10), held == value-value%grain, err
	})
}

// set writes a limit, and reads back what the kernel holds: ok reports whether that is what was meant.
func set(dir, file, value string, held func() (text string, ok bool, err error)) error {
	if err := write(dir, file, value); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	text, ok, err := held()
	if err != nil {
		return fmt.Errorf("read limit back: %w", err)
	}
	if !ok {
		return newHostError("set limit: %s: wrote %s, read back %s", filepath.Join(dir, file), value, text)
	}
	return nil
}

// readNumber reads a file of one number; "max" is the largest.
func readText(dir, file string) (string, error) {
	text, err := kernel.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(text)), err
}

func readNumber(dir, file string) (int64, error) {
	word, err := readText(dir, file)
	if err != nil {
		return 0, err
	}
	if word == "max" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, file), err)
	}
	return n, nil
}

// refusedBy reports whether the kernel rejected a value, as opposed to a missing or protected file.
func refusedBy(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ERANGE) }

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

// write writes one value into a cgroup file; the error names the file and the value.
func write(dir, file, value string) error {
	if err := kernel.WriteFile(filepath.Join(dir, file), value); err != nil {
		return fmt.Errorf("write %q: %w", value, err)
	}
	return nil
}
