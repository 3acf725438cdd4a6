// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/driver"
)

func eventCases() []Case {
	return []Case{
		{"events are of their tasks", events},
		{"the end comes after its events", eventsFirst},
		{"events end with their reader", eventsCancelled},
	}
}

func events(ctx context.Context, e *Env) error {
	w := follow(ctx, e)
	defer w.end()
	t := e.run(ctx, "exit 3")
	e.wait(ctx, t)
	// Drivers of others say other things, or nothing.
	_ = await(ctx, 5*time.Second, func() bool { return told(w.seen(), "exit code 3") })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	seen := w.seen()
	for _, event := range seen {
		if event.TaskID != t.ID || event.AllocID != t.AllocID || event.TaskName != t.Name {
			return fmt.Errorf("an event of %s/%s/%s: %s", event.TaskID, event.AllocID, event.TaskName, event.Message)
		}
		if event.Message == "" || event.Timestamp.IsZero() {
			return fmt.Errorf("an event without text or time: %+v", event)
		}
	}
	if len(seen) == 0 {
		return skip("tells no events")
	}
	return nil
}

// eventsFirst is about hosts that drop events of tasks that they know to have ended.
func eventsFirst(ctx context.Context, e *Env) error {
	w := follow(ctx, e)
	defer w.end()
	t := e.run(ctx, "exit 3")
	e.wait(ctx, t)
	if told(w.seen(), "exit code 3") {
		return nil
	}
	if await(ctx, 2*time.Second, func() bool { return told(w.seen(), "exit code 3") }) == nil {
		return errors.New("the end of the task was told before its last event was handled")
	}
	return skip("tells no end of tasks")
}

func told(events []*driver.Event, text string) bool {
	return slices.ContainsFunc(events, func(event *driver.Event) bool { return strings.Contains(event.Message, text) })
}

// handling is how long a host is at work on each event.
const handling = 100 * time.Millisecond

// host handles events as real ones do: one by one, and when a stream ends it opens the next one.
type watcher struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex // guards handled
	handled []*driver.Event
}

func follow(ctx context.Context, e *Env) *watcher {
	h := &watcher{}
	ctx, h.cancel = context.WithCancel(ctx)
	h.ended.Go(func() {
		for works := true; works; {
			works = false
			stream, err := e.TaskEvents(ctx)
			for err == nil {
				var event *driver.Event
				if event, err = stream.Recv(); err == nil {
					works = true
					h.handle(ctx, event)
				}
			}
			works = works && errors.Is(err, io.EOF)
		}
	})
	return h
}

func (h *watcher) handle(ctx context.Context, event *driver.Event) {
	select {
	case <-time.After(handling):
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handled = append(h.handled, event)
}

func (h *watcher) seen() []*driver.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.handled)
}

func (h *watcher) end() {
	h.cancel()
	h.ended.Wait()
}

func eventsCancelled(ctx context.Context, e *Env) error {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := value(e.TaskEvents(short))
	cancel()
	return endsWith(stream, 5*time.Second, context.Canceled)
}

// endsWith reads a stream, which must end in time, with an error of a kind.
func endsWith[T any](stream driver.Stream[T], within time.Duration, want error) error {
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		return expectError("the stream ended with", err, want)
	case <-time.After(within):
		return fmt.Errorf("the stream goes on, want %w", want)
	}
}
