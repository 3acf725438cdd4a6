// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record_test

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestLastEnd(t *testing.T) {
	now := time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		end     record.LastEnd
		text    string
		problem bool
	}{
		{record.LastEnd{}, "", false},
		{record.LastEnd{Outcome: record.OOMKilled, Cause: "task", At: now.Add(-38 * time.Second)}, "oom-killed 38 s ago", true},
		{record.LastEnd{Outcome: record.OOMKilled, At: now.Add(-99 * time.Second)}, "oom-killed 1m ago", true},
		{record.LastEnd{Outcome: "timed_out", Cause: "task"}, "timed out", true},
		{record.LastEnd{Outcome: "executor_lost", Cause: "host", At: now.Add(time.Second)}, "executor lost (host) 0 s ago", true},
		{record.LastEnd{Outcome: "failed", Cause: "operator", At: now.Add(-49 * time.Hour)}, "failed (operator) 2d1h ago", false},
		{record.LastEnd{Outcome: "stopped", At: now}, "stopped 0 s ago", false},
		{record.LastEnd{Outcome: "completed", Cause: "task", At: now}, "completed 0 s ago", false},
	} {
		testkit.Equal(t, test.end.Text(now), test.text, "%+v", test.end)
		testkit.Equal(t, test.end.Problem(), test.problem, "%+v is a problem", test.end)
	}
}
