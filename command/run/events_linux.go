// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import "context"

// followEvents carries out what the executor tells while the command runs. Whenever the command was stopped by a key of
// its terminal (Ctrl-Z) it suspends this process, as the shell expects of its job, and lets both go on together. OOM
// kills are told as they happen, because the command may go on without the process that was killed. It returns when ctx
// or the task ends; what it was too late for, the summary tells.
func (s *session) followEvents(ctx context.Context) {
	stops, kills := s.streams.master != nil, !s.options.quiet
	if !stops && !kills {
		return
	}
	events, err := s.client.Events(ctx)
	if err != nil {
		return // the end of the executor tells the rest
	}
	for {
		event, err := events.Recv()
		if err != nil {
			return
		}
		switch kind := event.GetKind(); {
		case kind == "stopped" && stops:
			s.suspend(ctx)
		case kind == "oom_kill" && kills:
			s.screen.note("OOM kill: " + event.GetMessage())
		}
	}
}
