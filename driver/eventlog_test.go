// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitTaken is about when an event counts as taken: its listener has come back for another.
func TestAwaitTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newEventLog(0)
		l.add(&Event{Message: "one"}, nil)
		if l.awaitTaken(t.Context()) {
			t.Error("taken, with nobody listening")
		}
		listening, stop := context.WithCancel(t.Context())
		stream := l.listen(listening, nil)
		ctx, cancel := context.WithCancel(t.Context())
		taken := make(chan bool, 1)
		await := func() { taken <- l.awaitTaken(ctx) }

		go await()
		if e, err := stream.Recv(); err != nil || e.Message != "one" {
			t.Fatalf("received %+v, %v", e, err)
		}
		synctest.Wait()
		if len(taken) > 0 {
			t.Error("taken before the listener came back")
		}
		l.add(&Event{Message: "two"}, nil)
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if !<-taken {
			t.Error("not taken although the listener has come back")
		}

		go await() // for "two", whose listener goes
		synctest.Wait()
		stop()
		if <-taken {
			t.Error("taken by a listener that has gone")
		}

		l.listen(t.Context(), nil)
		go await()
		synctest.Wait()
		cancel()
		if <-taken {
			t.Error("taken although nobody came in time")
		}
	})
}

// TestAwaitHandled is about a host behind a wire that has taken many events at once.
func TestAwaitHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newEventLog(time.Second)
		stream := l.listen(t.Context(), nil)
		const events = 3
		for range events {
			l.add(&Event{}, nil)
		}
		go func() {
			for range events + 1 {
				_, _ = stream.Recv() // the last one ends with the test
			}
		}()
		began := time.Now()
		l.awaitHandled(t.Context())
		if took := time.Since(began); took != events*time.Second {
			t.Errorf("%d events of a second each took %s", events, took)
		}
		l.awaitHandled(t.Context())
		if took := time.Since(began); took != events*time.Second {
			t.Errorf("events that were handled are waited for, %s", took-events*time.Second)
		}
	})
}
