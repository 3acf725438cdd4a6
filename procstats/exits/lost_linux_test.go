// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"testing"
	"time"
)

// What there is no room for while nothing is read is counted, and what comes after that is recorded again.
func TestLostRecords(t *testing.T) {
	r := openReader(t)
	w, err := r.watch(rootCgroup)
	must(t, err)
	const room, threads = ringSize / (recordSize + 8), 2500
	r.mu.Lock() // so that the reader waits
	for range threads {
		endThread()
	}
	r.mu.Unlock()
	if lost := w.Read().Lost; lost < threads-room-100 { // some may be about to end
		t.Errorf("%d of %d records lost, with room for %d", lost, threads, room)
	}
	noError(t, r.Try())
}

// Programs that report nothing are found out, by a thread of this process or by the first process of the cgroup.
func TestSilent(t *testing.T) {
	r := openReader(t)
	for _, l := range r.links {
		must(t, l.Close())
	}
	r.links = nil
	w, err := r.watch(^uint64(0)) // no cgroup has this id
	must(t, err)
	if _, err := w.Finish(time.Millisecond); !errors.Is(err, errSilent) {
		t.Errorf("Finish: %v", err)
	}
	if err := r.Try(); !errors.Is(err, errSilent) {
		t.Errorf("Try: %v", err)
	}
	noError(t, w.Close())
}
