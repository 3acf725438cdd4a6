// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/wire"
)

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
	fd, err := unix.Open(filepath.Join(folder, wire.NotifyFile), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
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
