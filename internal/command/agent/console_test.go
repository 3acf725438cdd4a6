// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		events := snapshot.NewFeed(16, 0)
		of := &allocation.Allocation{JobID: "leak"}
		publish := func(kind hook.EventType, message string) {
			events.Publish(snapshot.Event{Allocation: of, Task: "server", TaskEvent: &allocation.Event{Type: kind, Message: message}})
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			followEvents(ctx, &out, events)
		}()
		publish(hook.EventSetup, "preparing the task")
		publish(hook.EventStarted, "task started")
		publish(allocation.EventDriver, "started pid 7, memory 48 MiB")
		publish(allocation.EventDriver, "Killed: out of memory (limit 48 MiB, peak 48 MiB); 198 ms of CPU time")
		publish(hook.EventTerminated, "exit code 137")
		publish(hook.EventRestarting, "restarting in 3 s: within policy\n\x1b[31m")
		events.Publish(snapshot.Event{Allocation: of})
		publish(hook.EventNotRestarting, "exceeded 2 attempts")
		synctest.Wait()
		cancel()
		<-done
		var got []string
		for line := range strings.Lines(out.String()) {
			if clock, text, _ := strings.Cut(line, " "); strings.Count(clock, ":") == 2 {
				line = text
			}
			got = append(got, strings.TrimSpace(line))
		}
		want := []string{
			"leak/server  started pid 7, memory 48 MiB",
			"leak/server  Killed: out of memory (limit 48 MiB, peak 48 MiB)",
			`leak/server  restarting in 3 s: within policy; \x1b[31m`,
			"leak/server  exceeded 2 attempts",
		}
		testkit.Diff(t, "lines", want, got)
	})
}
