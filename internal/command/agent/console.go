// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/command/cli"
)

// followEvents shows what happens in a development agent to the person in front of it, one short line per event, until
// ctx is done. Errors of the terminal are ignored: the agent works without one.
func followEvents(ctx context.Context, out io.Writer, feed *snapshot.Feed) {
	for events := feed.Subscribe(0); ; {
		e, err := events.Next(ctx)
		if err != nil {
			return
		}
		if text := consoleText(e); text != "" {
			_, _ = fmt.Fprintln(out, e.Time.Local().Format(time.TimeOnly), text)
		}
	}
}

// consoleText returns what a line says of an event; empty for those that repeat what others say.
func consoleText(e snapshot.Event) string {
	if e.TaskEvent == nil || e.Allocation == nil {
		return ""
	}
	text := e.TaskEvent.Message
	switch e.TaskEvent.Type {
	case hook.EventSetup, hook.EventStarted, hook.EventTerminated, hook.EventKilling, hook.EventKilled,
		hook.EventCompleted:
		return "" // the driver says it with more words, or the user has asked for it
	case allocation.EventDriver:
		text, _, _ = strings.Cut(text, ";") // what was used is in tacho alloc status
	}
	return cli.OneLine(e.Allocation.JobID + "/" + e.Task + "  " + text)
}
