// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import "context"

// tellKills tells of OOM kills as they happen, because the command may go on without the process that was killed. It
// returns when ctx or the task ends; what it was too late for, the summary tells.
func (s *session) tellKills(ctx context.Context) {
	if s.options.quiet {
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
		if event.GetKind() == "oom_kill" {
			s.screen.note("OOM kill: " + event.GetMessage())
		}
	}
}
