// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// watchedProcess is an executor's process, which is held and waited for.
type watchedProcess struct {
	*process.Process
	// gone is closed when the process has ended, or never if close is called first.
	gone chan struct{}
	// child is nil for a process that this one has not started.
	child *child

	end     func() // of the watch
	waiting sync.WaitGroup
}

// watch holds a process, and reaps it if it is a child of this one. It is waited for in the goroutine of a set, or in
// one of its own where there is none. The error wraps ErrLost if it is gone.
func watch(id procstats.ProcessID, child *child, set *process.EpollSet) (*watchedProcess, error) {
	p, err := process.Open(kernel.HostFS(), id)
	if errors.Is(err, process.ErrGone) {
		return nil, ErrLost
	}
	if err != nil {
		return nil, err
	}
	w := &watchedProcess{Process: p, gone: make(chan struct{}), child: child}
	if set != nil {
		w.end, err = p.Watch(set, func() { w.waiting.Go(w.ended) })
	}
	if set == nil || err != nil {
		ctx, cancel := context.WithCancel(context.Background())
		w.end = cancel
		w.waiting.Go(func() {
			if p.Wait(ctx) == nil {
				w.ended()
			}
		})
	}
	return w, nil
}

func (w *watchedProcess) ended() {
	w.child.reap()
	close(w.gone)
}

// close stops watching. Closing nil is fine.
func (w *watchedProcess) close() error {
	if w == nil {
		return nil
	}
	w.end()
	w.waiting.Wait()
	select {
	case <-w.gone:
	default:
		if w.child != nil {
			go w.child.reap() // it goes on, and its end has to be reaped for as long as this process runs
		}
	}
	return w.Close()
}

// notifications tells the owner of an executor that something has changed, see wire.NotifyFile.
type notifications struct {
	fd  int
	set *process.EpollSet

	mu sync.Mutex // guards following
	// changed is closed and replaced at every notification; nil once there will be none.
	changed chan struct{}
}

// openNotifications returns nil for an executor that does not notify.
func openNotifications(folder string, set *process.EpollSet) *notifications {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(filepath.Join(folder, wire.NotifyFile), flags, 0)
	if err != nil {
		return nil
	}
	n := &notifications{fd: fd, set: set, changed: make(chan struct{})}
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO || set.Add(fd, n.read) != nil {
		_ = unix.Close(fd) // of what was not read
		return nil
	}
	return n
}

// read passes notifications on. It reports false at the executor's end.
func (n *notifications) read() (more bool) {
	var several [64]byte
	got, err := unix.Read(n.fd, several[:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.changed)
	n.changed = nil
	if got <= 0 {
		return false
	}
	n.changed = make(chan struct{})
	return true
}

// next returns a channel that is closed at the next notification; nil if there is none to expect.
func (n *notifications) next() <-chan struct{} {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// close gives the FIFO up. Closing nil is fine.
func (n *notifications) close() error {
	if n == nil {
		return nil
	}
	n.set.Remove(n.fd)
	return unix.Close(n.fd)
}
