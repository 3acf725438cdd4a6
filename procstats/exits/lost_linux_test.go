// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"testing"

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
	if err := r.try(); err != nil {
		t.Error(err)
	}
}
