// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import "context"

// followEvents handles the events of the executor until ctx or the task ends. When the command was stopped by a key of
// its terminal (Ctrl-Z), it suspends this process, too, as the shell expects of its job, and continues both together. It
// prints OOM kills as they happen, because the command may continue without the killed process.
func (s *session) followEvents(ctx context.Context) {
	stops, kills := s.streams.master != nil, !s.options.quiet
	if !stops && !kills {
		return
	}
	events, err := s.client.Events(ctx)
	if err != nil {
		return // Wait reports why
	}
	for {
		event, err := events.Recv()
		if err != nil {
			return
		}
		switch kind := event.GetKind(); {
		case kind == "stopped" && stops:
			s.suspend(ctx)
		case kind == "sampling_stretched" && kills && s.options.firstInterval == 0: // an interval was requested
			s.screen.note(event.GetMessage())
		case kind == "oom_kill" && kills:
			s.screen.note("OOM kill: " + event.GetMessage())
		}
	}
}
