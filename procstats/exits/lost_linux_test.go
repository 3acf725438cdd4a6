// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats/kernel"
)

// What there is no room for while nothing is read is counted, and what comes after that is recorded again.
func TestLostRecords(t *testing.T) {
	r, err := Open(kernel.HostFS())
	if err != nil {
		t.Skipf("no exit records here: %v", err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	w, err := r.watch(rootCgroup)
	if err != nil {
		t.Fatal(err)
	}
	const room, threads = ringSize / (recordSize + 8), 2500
	r.mu.Lock() // so that the reader waits
	for range threads {
		endThread()
	}
	r.mu.Unlock()
	if lost := w.Read().Lost; lost < threads-room-100 { // some may be about to end
		t.Errorf("%d of %d records lost, with room for %d", lost, threads, room)
	}
	if err := r.Try(); err != nil {
		t.Error(err)
	}
}

// Programs that report nothing are found out, by a thread of this process or by the first process of the cgroup.
func TestSilent(t *testing.T) {
	r, err := Open(kernel.HostFS())
	if err != nil {
		t.Skipf("no exit records here: %v", err)
	}
	for _, l := range r.links {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r.links = nil
	w, err := r.watch(^uint64(0)) // no cgroup has this id
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(time.Millisecond); !errors.Is(err, errSilent) {
		t.Errorf("Finish: %v", err)
	}
	if err := r.Try(); !errors.Is(err, errSilent) {
		t.Errorf("Try: %v", err)
	}
	if err := errors.Join(w.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}
