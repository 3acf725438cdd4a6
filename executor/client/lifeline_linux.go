// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// lifeline tells when a process ends, by a pidfd.
type lifeline struct {
	// file is nil where there are no pidfds.
	file *os.File
	// stop ends the watch of a process without one.
	stop chan struct{}
	// gone is closed when the process has ended, or never where the lifeline is closed first.
	gone chan struct{}
	done chan struct{}
}

// lookInterval is how often a process is looked at where there is no pidfd to wait for.
const lookInterval = 100 * time.Millisecond

// watch takes hold of a process. The error wraps ErrLost where it is gone, and where its number belongs to a
// process that started at another time.
func watch(id procstats.ProcessID) (*lifeline, error) {
	// Non-blocking, since Linux 5.10, so that the runtime's poller waits and no thread does.
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) {
		if fd, err = unix.PidfdOpen(id.PID, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	if errors.Is(err, unix.ESRCH) {
		return nil, ErrLost
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// Before Linux 5.3, or behind a filter of system calls.
		return lookAfter(id)
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open %d: %w", id.PID, err)
	}
	file := os.NewFile(uintptr(fd), fmt.Sprintf("pidfd of %d", id.PID))
	now, err := kernel.Identify(kernel.HostFS(), id.PID)
	if err != nil || now.ProcessID != id {
		return nil, errors.Join(ErrLost, file.Close())
	}
	l := &lifeline{file: file, gone: make(chan struct{}), done: make(chan struct{})}
	go l.wait()
	return l, nil
}

// lookAfter is watch without a pidfd: the start time tells the process from later ones with its number.
func lookAfter(id procstats.ProcessID) (*lifeline, error) {
	if !kernel.Alive(kernel.HostFS(), id) {
		return nil, ErrLost
	}
	l := &lifeline{stop: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		tick := time.NewTicker(lookInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if !kernel.Alive(kernel.HostFS(), id) {
					close(l.gone)
					return
				}
			case <-l.stop:
				return
			}
		}
	}()
	return l, nil
}

func (l *lifeline) wait() {
	defer close(l.done)
	raw, err := l.file.SyscallConn()
	if err != nil {
		return
	}
	err = raw.Read(func(fd uintptr) bool {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(events, 0)
		return err == nil && n > 0
	})
	if err == nil {
		close(l.gone)
	}
}

// kill kills the process. Without a pidfd the signal could reach another one.
func (l *lifeline) kill() error {
	if l.file == nil {
		return fmt.Errorf("there are no pidfds: %w", errors.ErrUnsupported)
	}
	raw, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	var killErr error
	err = raw.Control(func(fd uintptr) { killErr = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	if errors.Is(killErr, unix.ESRCH) {
		killErr = nil
	}
	return errors.Join(err, killErr)
}

// close stops watching. Closing nil is fine.
func (l *lifeline) close() error {
	if l == nil {
		return nil
	}
	var err error
	if l.file != nil {
		err = l.file.Close()
	} else {
		close(l.stop)
	}
	<-l.done
	return err
}
