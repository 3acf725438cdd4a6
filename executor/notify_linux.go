// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"fmt"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/wire"
)

// notifier wakes an owner that is not connected, see wire.NotifyFile. The zero notifier does not: the owner stays connected.
type notifier struct{ descriptor atomic.Int64 } // of the FIFO, plus one

// open makes the FIFO in the executor's directory. It is open for reading as well: a FIFO that nobody reads would refuse the byte.
// The runtime's poller does not have it, which would wake this process whenever the owner reads.
func (n *notifier) open(folder string) error {
	path := filepath.Join(folder, wire.NotifyFile)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	n.descriptor.Store(int64(fd) + 1)
	return nil
}

// notify says that something has changed.
func (n *notifier) notify() {
	if descriptor := n.descriptor.Load(); descriptor > 0 {
		_, _ = unix.Write(int(descriptor-1), []byte{0}) // a full one has bytes that were not read
	}
}
