// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package streams_test

import (
	"sync"
	"testing"

	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestRoom fills the room of one kind from many goroutines: it holds no more than its limit, and the other kinds have
// theirs.
func TestRoom(t *testing.T) {
	room := streams.New(streams.Limits{streams.Untrusted: 3, streams.Trusted: 1})
	leaves := make(chan func(), 10)
	var tries sync.WaitGroup
	for range 10 {
		tries.Go(func() {
			if leave, ok := room.Enter(streams.Untrusted); ok {
				leaves <- leave
			}
		})
	}
	tries.Wait()
	if _, ok := room.Enter(streams.Trusted); !ok {
		t.Error("untrusted streams take the room of trusted ones")
	}
	want := []streams.Usage{
		{Kind: streams.Trusted, Open: 1},
		{Kind: streams.Untrusted, Open: 3, Refused: 7},
		{Kind: streams.Exec},
		{Kind: streams.Page},
		{Kind: streams.UntrustedPage},
	}
	testkit.Diff(t, "result", want, room.Usage())
	(<-leaves)()
	if _, ok := room.Enter(streams.Untrusted); !ok {
		t.Error("a stream that was closed leaves no room")
	}
}
