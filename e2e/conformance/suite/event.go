// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tachograph/tacho/driver"
)

func eventCases() []Case {
	return []Case{
		{"events are of their tasks", events},
		{"events end with their reader", eventsCancelled},
	}
}

func events(ctx context.Context, e *Env) error {
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := e.TaskEvents(short)
	if err != nil {
		return err
	}
	t, err := e.run(ctx, "exit 3")
	if err != nil {
		return err
	}
	if _, err := e.wait(ctx, t); err != nil {
		return err
	}
	var seen []string
	for {
		event, err := stream.Recv()
		if err != nil {
			break
		}
		if event.TaskID != t.ID || event.AllocID != t.AllocID || event.TaskName != t.Name {
			return fmt.Errorf("an event of %s/%s/%s: %s", event.TaskID, event.AllocID, event.TaskName, event.Message)
		}
		if event.Message == "" || event.Timestamp.IsZero() {
			return fmt.Errorf("an event without text or time: %+v", event)
		}
		seen = append(seen, event.Message)
		if strings.Contains(event.Message, "exit code 3") {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(seen) == 0 {
		return skip("tells no events")
	}
	return nil
}

func eventsCancelled(ctx context.Context, e *Env) error {
	short, cancel := context.WithCancel(ctx)
	stream, err := e.TaskEvents(short)
	if err != nil {
		cancel()
		return err
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	cancel()
	select {
	case err := <-ended:
		return expectError("the stream ended with", err, context.Canceled)
	case <-time.After(5 * time.Second):
		return errors.New("the stream goes on without its reader")
	}
}

var _ driver.Observer = (*Env)(nil)
