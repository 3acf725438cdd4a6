// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// ended is how one child ended.
type ended struct {
	status unix.WaitStatus
	at     time.Time
}

// reaper waits for every child of the executor: the processes it started and the orphans it inherits as a
// subreaper. When it has no child left, nothing is left of the task, because every orphan is reparented to it first.
type reaper struct {
	host kernel.FS
	// childless gets a token each time wait4(2) says that there is no child.
	childless chan struct{}

	// stopped is called when a child that start made was stopped by a signal; it must not call back.
	stopped func(pid int, signal unix.Signal)

	mu      sync.Mutex // guards following, and is held over a fork: no status is seen before its owner is known
	owners  map[int]chan<- ended
	sum     source.Reaped
	last    time.Time // when a child was reaped last
	readsIO bool
	cgroup  kernel.CgroupPaths // of the task in the v2 hierarchy; empty if children are not held against it
}

func newReaper(host kernel.FS) *reaper {
	return &reaper{host: host, childless: make(chan struct{}, 1), owners: make(map[int]chan<- ended)}
}

// reapLimit is how long a reaper outlives its context for children that are left: killed ones of a start that failed.
const reapLimit = 5 * time.Second

// run reaps until ctx is done and no child is left, and calls after whenever it has. SIGCHLDs merge, so each one is
// followed by waiting for all there is.
func (r *reaper) run(ctx context.Context, after func()) {
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, unix.SIGCHLD)
	defer signal.Stop(sigchld)
	done := ctx.Done()
	var limit <-chan time.Time
	for {
		none := r.reapAll()
		after()
		if none && ctx.Err() != nil {
			return
		}
		select {
		case <-sigchld:
		case <-done:
			done, limit = nil, time.After(reapLimit)
		case <-limit:
			return
		}
	}
}

// start forks under the reaper's lock and returns the channel that gets the child's end.
func (r *reaper) start(fork func() (pid int, err error)) (pid int, end <-chan ended, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.childless: // from before this child
	default:
	}
	pid, err = fork()
	if err != nil {
		return 0, nil, err
	}
	owner := make(chan ended, 1)
	r.owners[pid] = owner
	return pid, owner, nil
}

// errNotRunning says that a child has been reaped.
var errNotRunning = errors.New("the process has ended")

// startBeside is start where another child has not been reaped yet: as long as that is so the task has not ended, and
// its end waits for the new child too.
func (r *reaper) startBeside(other int, fork func() (pid int, err error)) (pid int, end <-chan ended, err error) {
	return r.start(func() (int, error) {
		if _, unreaped := r.owners[other]; !unreaped {
			return 0, errNotRunning
		}
		return fork()
	})
}

// signal sends a signal to a child that start made, or to the process group that it leads. The error wraps
// process.ErrGone once it has been reaped.
func (r *reaper) signal(pid int, signal unix.Signal, group bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, unreaped := r.owners[pid]; !unreaped {
		return fmt.Errorf("signal child %d: %w", pid, process.ErrGone)
	}
	if group {
		return process.Child(pid).SignalGroup(signal)
	}
	return process.Child(pid).Signal(signal)
}

// reaped returns the sum over all children so far.
func (r *reaper) reaped() source.Reaped {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum
}

// lastReaped is when a child was reaped last.
func (r *reaper) lastReaped() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// watch makes the reaper look whether each child has ended in the cgroup of the task, and, with io, read the
// /proc/PID/io of each before the kernel forgets it.
func (r *reaper) watch(task procstats.Cgroup, io bool) {
	mounts, err := kernel.CgroupMounts(r.host)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readsIO = io
	if err == nil && task.Encloses() {
		r.cgroup = kernel.PathsOf(procstats.Cgroup{V2: task.V2}, mounts)
		r.sum.Watched = len(r.cgroup) > 0
	}
}

// reapAll reaps all children that have ended, and reports whether none is left.
func (r *reaper) reapAll() (none bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for more := true; more; {
		more, none = r.reapOneLocked()
	}
	return none
}

// reapOneLocked reaps one child; more says that there may be another, and none that no child is left. Only a child
// that was looked at is reaped: one that ends meanwhile is found the next time.
func (r *reaper) reapOneLocked() (more, none bool) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	pid := siginfoInt(&info, siginfoPID)
	switch {
	case errors.Is(err, unix.EINTR):
		return true, false
	case errors.Is(err, unix.ECHILD):
		select {
		case r.childless <- struct{}{}:
		default:
		}
		return false, true
	case err != nil || pid <= 0:
		return false, false
	case info.Code == cldStopped:
		return r.takeStopLocked(pid), false
	}
	r.peekLocked(pid)
	var status unix.WaitStatus
	var usage unix.Rusage
	if got, err := unix.Wait4(pid, &status, unix.WNOHANG, &usage); err != nil || got != pid {
		return errors.Is(err, unix.EINTR), false
	}
	owner, mine := r.owners[pid]
	r.last = time.Now()
	r.sum.Add(&usage)
	if mine {
		delete(r.owners, pid)
		owner <- ended{status: status, at: r.last}
		close(owner)
	}
	return true, false
}

// takeStopLocked takes the news that a child was stopped; false if it cannot be taken. wait4(2) would reap a child
// that has ended since.
func (r *reaper) takeStopLocked(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	if err != nil {
		return errors.Is(err, unix.EINTR)
	}
	if _, mine := r.owners[pid]; mine && r.stopped != nil && siginfoInt(&info, siginfoPID) == pid {
		r.stopped(pid, unix.Signal(siginfoInt(&info, siginfoStatus)))
	}
	return true
}

// peekLocked reads what the kernel still says of a child that has ended, before it is reaped.
func (r *reaper) peekLocked(pid int) {
	if len(r.cgroup) > 0 && r.cgroup.EndedOutside(r.host, pid) {
		r.sum.Outside++
	}
	if r.readsIO {
		r.addIOLocked(pid)
	}
}

// addIOLocked adds the I/O of a child that has ended.
func (r *reaper) addIOLocked(pid int) {
	io, err := kernel.ReadProcIO(r.host, pid)
	if err != nil {
		r.sum.IOMissed++
		return
	}
	r.sum.IO.Rchar += io.Rchar
	r.sum.IO.Wchar += io.Wchar
	r.sum.IO.ReadBytes += io.ReadBytes
	r.sum.IO.WriteBytes += io.WriteBytes
	r.sum.IO.CancelledWriteBytes += io.CancelledWriteBytes
}

// cldStopped is si_code of a child that was stopped by a signal, sigaction(2).
const cldStopped = 5

// What siginfoInt returns of a child: si_pid, si_uid and si_status stand first in the union, one after the other.
const (
	siginfoPID    = 0
	siginfoStatus = 2
)

// siginfoInt returns one of the integers of the union, which is behind the three integers of siginfo_t, sigaction(2).
// The union holds pointers, so it is aligned like one.
func siginfoInt(info *unix.Siginfo, n uintptr) int {
	const size = unsafe.Sizeof(int32(0))
	const alignment = unsafe.Alignof(uintptr(0))
	const offset = (3*size + alignment - 1) / alignment * alignment
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset+n*size)))
}
