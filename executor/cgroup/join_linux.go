// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
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
	own := g.executor.V1[controller]
	if own == "" {
		own = filepath.Dir(dir)
	}
	err := write(own, tasksFile, tid)
	if errors.Is(err, fs.ErrPermission) && write(filepath.Dir(dir), tasksFile, tid) == nil {
		return nil
	}
	return err
}
