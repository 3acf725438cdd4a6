// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/wire"
)

// notifications tells the owner of an executor that something has changed, see wire.NotifyFile.
type notifications struct {
	file    *os.File
	reading sync.WaitGroup

	mu sync.Mutex // guards following
	// changed is closed and replaced at every notification; nil once there will be none.
	changed chan struct{}
}

// openNotifications returns nil for an executor that does not notify.
func openNotifications(folder string) *notifications {
	file, err := os.OpenFile(filepath.Join(folder, wire.NotifyFile), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		_ = file.Close() // of what was not read
		return nil
	}
	n := &notifications{file: file, changed: make(chan struct{})}
	n.reading.Go(n.read)
	return n
}

// read passes notifications on until the file is closed or the executor has ended.
func (n *notifications) read() {
	var several [64]byte
	for {
		_, err := n.file.Read(several[:])
		n.mu.Lock()
		close(n.changed)
		n.changed = make(chan struct{})
		if err != nil {
			n.changed = nil
		}
		n.mu.Unlock()
		if err != nil {
			return
		}
	}
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

// close ends the goroutine. Closing nil is fine.
func (n *notifications) close() error {
	if n == nil {
		return nil
	}
	err := n.file.Close()
	n.reading.Wait()
	return err
}
