// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"bytes"
	"cmp"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// sockets are those of a task that the programs do not see, as far as they are known.
type sockets struct {
	given int             // that the task was started with
	file  kernel.File     // the AF_PACKET sockets of the network namespace; not open where the kernel has none
	known map[string]bool // those that were there before, by their inodes
	later int             // those that came later
	seen  func() (int64, string)
	buf   []byte
}

// WatchSockets begins to look for sockets of the task whose packets are not counted, before it is started with
// descriptors; seen returns how many of them were seen of its processes, and why there may be others.
func (s *Source) WatchSockets(host kernel.FS, descriptors []uintptr, seen func() (int64, string)) {
	if s.counter == nil {
		return
	}
	w := &sockets{known: make(map[string]bool), seen: seen}
	for _, fd := range descriptors {
		if int(fd) < 0 {
			continue // a number that the task has closed, of which a large one leaves hundreds
		}
		domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err == nil && domain != unix.AF_NETLINK && domain != unix.AF_UNIX {
			w.given++
		}
	}
	if file, err := kernel.Open(filepath.Join(host.Proc, "net/packet")); err == nil {
		w.file = file
	}
	w.look()
	w.later = 0
	s.sockets = w
}

// listHead is the size of a page. The kernel ends a read of its list where the next line does not fit into a page: one
// that is shorter by more than a line is at the end of the list, and to find that out would cost as much again.
const listHead = 4096

// look counts the AF_PACKET sockets that are new.
func (w *sockets) look() {
	if !w.file.IsOpen() {
		return
	}
	var err error
	if w.buf, err = w.file.ReadHead(w.buf, listHead); err == nil && len(w.buf) > listHead/2 {
		w.buf, err = w.file.Read(w.buf)
	}
	if err != nil {
		return
	}
	for line := range bytes.Lines(w.buf) {
		if fields := bytes.Fields(line); len(fields) > 0 && !w.known[string(fields[len(fields)-1])] {
			w.known[string(fields[len(fields)-1])] = true
			w.later++
		}
	}
}

// uncounted returns how many there were so far, or the reason why that is not known.
func (w *sockets) uncounted(reason string) (int, string) {
	if w == nil {
		return 0, cmp.Or(reason, "its sockets are not watched")
	}
	w.look()
	seen, unseen := w.seen()
	all := w.given + w.later + int(seen)
	if all == 0 {
		reason = cmp.Or(reason, unseen)
	}
	return all, reason
}

func (w *sockets) close() error {
	if w == nil {
		return nil
	}
	return w.file.Close()
}
