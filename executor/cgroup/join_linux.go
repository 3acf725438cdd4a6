// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Enter prepares the calling thread, which must be locked, and the arguments of clone(2), so that what the thread
// forks is in the task's groups from its first instruction. leave undoes it. With visit it avoids clone3(2), for
// hosts where CanClone fails.
func (g *Group) Enter(attributes *syscall.SysProcAttr, visit bool) (leave func() error, err error) {
	if len(g.cpus.list) > 0 || g.cpus.unbinds { // joining a cpuset changes them
		g.cpus.own, _ = affinity(0)
	}
	leaveV2, err := g.enterV2(attributes, visit)
	if err != nil {
		return nil, err
	}
	leaveV1, err := g.joinThread()
	if err != nil {
		return nil, errors.Join(err, leaveV2())
	}
	leaveBoth := func() error { return errors.Join(leaveV1(), leaveV2()) }
	if len(g.cpus.own) == 0 {
		return leaveBoth, nil
	}
	g.cpus.lend(attributes.UseCgroupFD)
	return func() error {
		err := leaveBoth()
		if now, ok := affinity(0); ok && !slices.Equal(now, g.cpus.own) {
			err = errors.Join(err, setAffinity(0, g.cpus.own))
		}
		return err
	}, nil
}

func (g *Group) enterV2(attributes *syscall.SysProcAttr, visit bool) (leave func() error, err error) {
	attributes.UseCgroupFD = false
	switch {
	case g.V2 == "":
		return func() error { return nil }, nil
	case visit:
		return g.visitV2()
	}
	fd, err := unix.Open(g.V2, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open cgroup %s: %w", g.V2, err)
	}
	attributes.UseCgroupFD, attributes.CgroupFD = true, fd
	return func() error { return unix.Close(fd) }, nil
}

// visitV2 moves the whole executor into the task's group for as long as it takes to fork there, for kernels and
// sandboxes without clone3(2). What the executor touches meanwhile is charged to the task: a few pages.
func (g *Group) visitV2() (leave func() error, err error) {
	if g.executor.V2 == "" {
		return nil, errors.New("join cgroup: the executor's own cgroup is not visible here")
	}
	self := strconv.Itoa(os.Getpid())
	if err := write(g.V2, procsFile, self); err != nil {
		return nil, fmt.Errorf("join cgroup: %w", err)
	}
	return func() error { return write(g.executor.V2, procsFile, self) }, nil
}

// cloneArgs is struct clone_args of linux/sched.h as it is since Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// CanClone returns nil if a process can be started in a v2 group, clone3(2) with CLONE_INTO_CGROUP, since Linux 5.7.
// Sandboxes deny it: older ones of containers with EPERM, newer ones with ENOSYS. It starts nothing, because it
// passes an invalid descriptor, which the kernel checks last; it costs as much as a fork.
func CanClone() error {
	args := cloneArgs{flags: unix.CLONE_INTO_CGROUP, exitSignal: uint64(unix.SIGCHLD), cgroup: math.MaxInt32}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if pid == 0 && errno == 0 {
		// A child after all, of something that is no Linux.
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	switch errno {
	case unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EINVAL, unix.E2BIG:
		return fmt.Errorf("clone3 into a cgroup: %w", errno)
	}
	// EBADF; or what has to do with something else, and is for the true start to tell.
	return nil
}

// joinThread moves one thread of the executor into the v1 folders, so that what it forks starts there. Version 1
// allows threads of one process in different groups; memory is charged by the process, so nothing of the
// executor is charged to the task. leave moves the thread back to the executor's groups.
func (g *Group) joinThread() (leave func() error, err error) {
	// 0 is the calling thread. Since Linux 5.6 the kernel needs no lock against forks and exits for it; for a thread that
	// is named it waits for an RCU grace period, 10 to 25 ms.
	const text = "0"
	leave = func() error {
		var errs []error
		for controller, dir := range g.V1 {
			errs = append(errs, g.leaveV1(controller, dir, text))
		}
		if g.cpuset != "" {
			errs = append(errs, g.leaveV1("cpuset", g.cpuset, text))
		}
		return errors.Join(errs...)
	}
	dirs := g.v1Folders()
	if g.cpuset != "" {
		dirs = append(dirs, g.cpuset)
	}
	for _, dir := range dirs {
		if err := write(dir, tasksFile, text); err != nil {
			if budget, read := readNumber(dir, realtimeFile); read == nil && budget == 0 && errors.Is(err, unix.EINVAL) {
				err = fmt.Errorf("%w (it takes no real-time priority; start it without one, or without a CPU limit)", err)
			}
			return nil, errors.Join(fmt.Errorf("join cgroup: %w", err), leave())
		}
	}
	return leave, nil
}

// leaveV1 moves a thread from a v1 folder back to the executor's own group. Without write access there, in a
// delegated part of the hierarchy, the thread moves to the folder above the task's, and stays.
func (g *Group) leaveV1(controller, dir, tid string) error {
	own := cmp.Or(g.executor.V1[controller], filepath.Dir(dir))
	err := write(own, tasksFile, tid)
	if errors.Is(err, fs.ErrPermission) && write(filepath.Dir(dir), tasksFile, tid) == nil {
		return nil
	}
	return err
}

// PIDs returns the processes in the group and in groups below it, in any hierarchy: a process can be moved in one and
// stay in another. A group that is gone has no processes.
func (g *Group) PIDs() ([]int, error) {
	var pids []int
	for _, dir := range g.Folders() {
		more, err := kernel.ListCgroup(dir)
		if err != nil {
			return nil, fmt.Errorf("list cgroup processes: %w", err)
		}
		pids = append(pids, more...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Kill sends SIGKILL to every process of the group and of groups below it, including forks that race. It does not
// wait for their end. It kills nothing in a shared group.
func (g *Group) Kill() error {
	if !g.Encloses() {
		return nil
	}
	if g.V2 != "" {
		// cgroup.kill, since Linux 5.14: the kernel takes care of forks that race.
		err := write(g.V2, "cgroup.kill", "1")
		if err == nil || vanishedFolder(g.V2) {
			if len(g.V1) == 0 {
				return nil
			}
		} else if !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return g.killEach()
}

func vanishedFolder(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

const freezerState = "freezer.state"

// killEach kills process by process. One that has been sent SIGKILL forks no more (fork(2) looks for signals last):
// when a round lists nothing new, all are killed. A group that forks faster than that is frozen, which is a risk: if
// this process is killed meanwhile, what version 1 has frozen ends only once it is thawed. Version 2 freezes since
// Linux 5.2.
func (g *Group) killEach() error {
	const unfrozen, rounds = 5, 20
	dir, file, frozen, thawed := g.V1["freezer"], freezerState, "FROZEN", "THAWED"
	if dir == "" {
		dir, file, frozen, thawed = g.V2, "cgroup.freeze", "1", "0"
	}
	set := func(state string) {
		if dir != "" {
			_ = write(dir, file, state) // nothing else can be done about an error
		}
	}
	defer set(thawed) // also what was paused before
	killed := map[int]bool{}
	for round := range rounds {
		if round == unfrozen {
			set(frozen)
		}
		pids, err := g.PIDs()
		pids = slices.DeleteFunc(pids, func(pid int) bool { return killed[pid] })
		if err != nil || len(pids) == 0 {
			return err
		}
		for batch := range slices.Chunk(pids, maxHeld) {
			if err := g.killMembers(batch); err != nil {
				return err
			}
		}
		for _, pid := range pids {
			killed[pid] = true
		}
	}
	return nil
}

// maxHeld bounds the processes that are held at once: each takes a descriptor.
const maxHeld = 256

// killMembers kills the listed processes that are still members once they are held. The numbers could have been
// reused since the list was read, so it holds them first, and then lists the members again.
func (g *Group) killMembers(pids []int) (err error) {
	members := pids
	isMember := func(pid int) bool {
		_, found := slices.BinarySearch(members, pid)
		return found
	}
	held := make([]*process.Process, 0, len(pids))
	defer func() {
		for _, p := range held {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue // a thread of this process is there to start one: version 1 lists its process
		}
		p, err := process.Hold(pid, func() bool { return isMember(pid) }, nil)
		if err == nil {
			held = append(held, p)
		} else if !errors.Is(err, process.ErrGone) {
			return fmt.Errorf("kill member of cgroup: %w", err)
		}
	}
	if members, err = g.PIDs(); err != nil {
		return err
	}
	for _, p := range held {
		if !isMember(p.PID()) {
			continue
		}
		if err := p.Signal(unix.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}

// Empty kills the remaining processes, waits until they are gone, and removes the group if it is ours. It is for
// callers that find the task of an executor that died; a live executor sees the end of its children itself.
func (g *Group) Empty(ctx context.Context) error {
	if !g.Encloses() {
		return nil
	}
	const pause = 2 * time.Millisecond
	for {
		pids, err := g.PIDs()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			err := g.Remove()
			if err == nil || !errors.Is(err, unix.EBUSY) {
				return err
			}
		} else if err := g.Kill(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("empty cgroup: %s left: %w", procstats.Counted(len(pids), "process", "processes"),
				context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
