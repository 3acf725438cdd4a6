// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package allocation_test

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestLastEnd(t *testing.T) {
	at := time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)
	started := allocation.Event{Type: hook.EventStarted, Time: at.Add(time.Minute)}
	refused := allocation.Event{
		Type: hook.EventDriverFailure, Time: at.Add(time.Hour),
		Details: map[string]string{allocation.DetailCause: string(hook.CauseHost)},
	}
	failed := &hook.Exit{Code: 1, Cause: hook.CauseTask, At: at}
	for name, test := range map[string]struct {
		task allocation.Task
		want record.LastEnd
	}{
		"never ended":         {allocation.Task{Events: []allocation.Event{started}}, record.LastEnd{}},
		"by its record":       {allocation.Task{State: hook.State{Exit: failed}, Outcome: "oom-killed"}, record.LastEnd{Outcome: "oom-killed", Cause: "task", At: at}},
		"by its exit code":    {allocation.Task{State: hook.State{Exit: failed}}, record.LastEnd{Outcome: "failed", Cause: "task", At: at}},
		"by a signal":         {allocation.Task{State: hook.State{Exit: &hook.Exit{Code: 137, Signal: 9}}}, record.LastEnd{Outcome: "signaled"}},
		"by an OOM kill":      {allocation.Task{State: hook.State{Exit: &hook.Exit{Signal: 9, OOMKilled: true}}}, record.LastEnd{Outcome: "oom-killed"}},
		"not observed":        {allocation.Task{State: hook.State{Exit: &hook.Exit{Lost: "gone"}}}, record.LastEnd{Outcome: "executor_lost"}},
		"never started":       {allocation.Task{Events: []allocation.Event{refused, {Type: hook.EventRestarting, Time: at.Add(time.Hour)}}}, record.LastEnd{Outcome: "start_failed", Cause: "host", At: refused.Time}},
		"not started again":   {allocation.Task{State: hook.State{Exit: failed}, Events: []allocation.Event{started, refused}}, record.LastEnd{Outcome: "start_failed", Cause: "host", At: refused.Time}},
		"started after a try": {allocation.Task{State: hook.State{Exit: failed}, Events: []allocation.Event{refused, {Type: hook.EventStarted, Time: at.Add(2 * time.Hour)}}}, record.LastEnd{Outcome: "failed", Cause: "task", At: at}},
	} {
		testkit.Diff(t, name, test.want, test.task.LastEnd())
	}
}
