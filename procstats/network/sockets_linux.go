// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"bytes"
	"cmp"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// PacketSockets are the AF_PACKET sockets of a network namespace that were seen, for all tasks of a process.
type PacketSockets struct {
	list string // its path; a kernel without such sockets has none

	mu   sync.Mutex               // guards following
	seen map[string]time.Duration // when they were last there, by inode
	all  int                      // how many there were
	at   time.Duration            // when the list was last read, on the monotonic clock
}

// mostRemembered is how many are remembered that are closed: an agent runs for years.
const mostRemembered = 1000

// NewPacketSockets returns those of a machine, of which none was seen yet.
func NewPacketSockets(host kernel.FS) *PacketSockets {
	return &PacketSockets{list: filepath.Join(host.Proc, "net/packet"), seen: make(map[string]time.Duration)}
}

// sockets are those of a task that the programs do not see, as far as they are known.
type sockets struct {
	given  int // that the task was started with
	packet *PacketSockets
	before int // how many of them were seen before the task
	seen   func() (int64, string)
}

// WatchSockets begins to look for sockets of the task whose packets are not counted, before it is started with
// descriptors; seen returns how many of them were seen of its processes, and why there may be others.
func (s *Source) WatchSockets(packet *PacketSockets, descriptors []uintptr, seen func() (int64, string)) {
	if s.counter == nil {
		return
	}
	s.sockets = sockets{packet: packet, before: packet.count(kernel.Now().Mono), seen: seen}
	for _, fd := range descriptors {
		if int(fd) < 0 {
			continue // a number that the task has closed, of which a large one leaves hundreds
		}
		domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err == nil && domain != unix.AF_NETLINK && domain != unix.AF_UNIX {
			s.sockets.given++
		}
	}
}

// listAge is how old the list may be when a sample begins: what one task has read is news for all that are read then.
const listAge = 100 * time.Millisecond

// count returns how many were seen until a time, or later.
func (p *PacketSockets) count(until time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at < until {
		p.at = kernel.Now().Mono
		before := len(p.seen)
		text, _ := kernel.ReadFile(p.list)
		for line := range bytes.Lines(text) {
			if fields := bytes.Fields(line); len(fields) > 0 {
				p.seen[string(fields[len(fields)-1])] = p.at
			}
		}
		p.all += len(p.seen) - before
		if len(p.seen) > mostRemembered {
			maps.DeleteFunc(p.seen, func(_ string, at time.Duration) bool { return at < p.at })
		}
	}
	return p.all
}

// uncounted returns how many there were when a sample began, or the reason why that is not known.
func (w *sockets) uncounted(began time.Duration, reason string) (int, string) {
	if w.seen == nil {
		return 0, cmp.Or(reason, "its sockets are not watched")
	}
	seen, unseen := w.seen()
	began = cmp.Or(began, kernel.Now().Mono+listAge) // else it is for the counts alone
	all := w.given + w.packet.count(began-listAge) - w.before + int(seen)
	if all == 0 {
		reason = cmp.Or(reason, unseen)
	}
	return all, reason
}
