// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tachograph/tacho/internal/testkit"
)

func receive(t *testing.T, s *eventStream, want string) {
	t.Helper()
	if e, err := s.Recv(); err != nil || e.Message != want {
		t.Fatalf("received %v, %v; want %q", e, err, want)
	}
}

func TestDelivery(t *testing.T) {
	d := newDelivery(false)
	var received []string
	add := func(message string) { d.add(&Event{Message: message}, func() { received = append(received, message) }) }
	add("before a host listens")
	held := func() weak.Pointer[task] {
		own := &task{warning: "of a task"}
		d.add(&Event{Message: own.warning}, func() { received = append(received, own.warning) })
		return weak.Make(own)
	}()
	first := d.listen(t.Context())
	receive(t, first, "before a host listens")
	receive(t, first, "of a task")
	if runtime.GC(); held.Value() != nil {
		t.Error("an event that was received holds its task")
	}
	second := d.listen(t.Context()) // begins behind what was received
	add("to both")
	receive(t, first, "to both")
	receive(t, second, "to both")
	testkit.Diff(t, "received", []string{"before a host listens", "of a task", "to both"}, received)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newDelivery(false).listen(ctx).Recv(); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	for range maxEvents + 10 {
		add("many")
	}
	for range maxEvents {
		receive(t, first, "many")
	}
	d.log.Close()
	if _, err := first.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// awaiting waits in the background for all events to be handled; it has the answer when that is over.
func awaiting(ctx context.Context, d *delivery) <-chan bool {
	handled := make(chan bool, 1)
	go func() { handled <- d.awaitHandled(ctx) }()
	synctest.Wait()
	return handled
}

// TestAwaitHandled is about when a host in this process has handled an event: it has come back for another.
func TestAwaitHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelivery(false)
		d.add(&Event{Message: "one"}, nil)
		if d.awaitHandled(t.Context()) {
			t.Error("handled, without a listener")
		}
		listening, stop := context.WithCancel(t.Context())
		stream := d.listen(listening)
		handled := awaiting(t.Context(), d)
		receive(t, stream, "one")
		synctest.Wait()
		if len(handled) > 0 {
			t.Error("handled before the listener came back")
		}
		d.add(&Event{Message: "two"}, nil)
		receive(t, stream, "two")
		if !<-handled {
			t.Error("not handled although the listener has come back")
		}
		handled = awaiting(t.Context(), d) // for "two", whose listener goes
		stop()
		if <-handled {
			t.Error("handled by a listener that has gone")
		}
		d.listen(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		handled = awaiting(ctx, d)
		cancel()
		if <-handled {
			t.Error("handled although no host came in time")
		}
	})
}

// TestAwaitRemote is about a host behind a wire: it has handled what it received when it opens its ended stream again.
func TestAwaitRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelivery(true)
		stream := d.listen(t.Context())
		for _, message := range []string{"one", "two"} {
			d.add(&Event{Message: message}, nil)
		}
		receive(t, stream, "one")
		receive(t, stream, "two")
		ended := make(chan error, 1)
		end := func() {
			go func() { _, err := stream.Recv(); ended <- err }()
			synctest.Wait()
		}
		if end(); len(ended) > 0 {
			t.Fatalf("the stream ended although no caller waits: %v", <-ended)
		}
		handled := awaiting(t.Context(), d)
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Fatalf("the stream ended with %v, want EOF", err)
		}
		d.add(&Event{Message: "three"}, nil)
		if synctest.Wait(); len(handled) > 0 {
			t.Fatal("handled before the host came back")
		}
		stream = d.listen(t.Context())
		if !<-handled {
			t.Error("not handled although the host has come back")
		}
		receive(t, stream, "three")

		// A second host that is stuck must not end the first one's streams for ever.
		stuck := d.listen(t.Context())
		d.add(&Event{Message: "four"}, nil)
		receive(t, stream, "four")
		receive(t, stuck, "four")
		handled = awaiting(t.Context(), d)
		if end(); !errors.Is(<-ended, io.EOF) {
			t.Error("the stream goes on")
		}
		stream = d.listen(t.Context())
		if !<-handled {
			t.Error("not handled although a host has come back")
		}
		if end(); len(ended) > 0 {
			t.Errorf("the stream ended again: %v", <-ended)
		}
	})
}

// TestAwaitRemoteGone holds that a host that does not come back costs its time once.
func TestAwaitRemoteGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelivery(true)
		stream := d.listen(t.Context())
		await := func() (handled bool, took time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), announceLimit)
			defer cancel()
			began := time.Now()
			return d.awaitHandled(ctx), time.Since(began)
		}
		d.add(&Event{Message: "one"}, nil)
		go func() {
			for err := error(nil); err == nil; _, err = stream.Recv() {
			}
		}()
		if handled, took := await(); handled || took != announceLimit {
			t.Errorf("handled %v after %s, want the whole of %s", handled, took, announceLimit)
		}
		d.add(&Event{Message: "two"}, nil)
		if handled, took := await(); handled || took != 0 {
			t.Errorf("handled %v after %s, want no wait", handled, took)
		}
		stream = d.listen(t.Context()) // late, but here
		receive(t, stream, "two")
	})
}
