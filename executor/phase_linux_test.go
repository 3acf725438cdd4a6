// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// cell is what the table says of an event in a phase.
func cell(p phase, ev event) string {
	next, ok := p.next(ev)
	switch {
	case !ok:
		return "rejected"
	case next == p:
		return "–"
	}
	return next.String()
}

// TestPhaseTable holds that the documentation has each pair of a phase and an event.
func TestPhaseTable(t *testing.T) {
	text := testkit.Value(os.ReadFile("../docs/executor-protocol.md"))(t)
	rows := map[string][]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 1+events {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		rows[cells[0]] = cells[1:]
	}
	header := make([]string, 0, events)
	for ev := range event(events) {
		header = append(header, ev.String())
	}
	if !slices.Equal(rows["phase"], header) {
		t.Errorf("the columns are %q, want %q", rows["phase"], header)
	}
	for p := range phase(phases) {
		want := make([]string, 0, events)
		for ev := range event(events) {
			want = append(want, cell(p, ev))
		}
		if !slices.Equal(rows[p.String()], want) {
			t.Errorf("row of %s\n got | %s |\nwant | %s |", p, strings.Join(rows[p.String()], " | "), strings.Join(want, " | "))
		}
	}
}

// TestPhasesEnd holds what is asked of every phase, whatever happens in it.
func TestPhasesEnd(t *testing.T) {
	// inStart are the phases in which Launch is at work, and withTask those with a task that is not gone.
	inStart, withTask := []phase{launching, canceled}, []phase{unconfirmed, running, killing}
	for p := range phase(phases) {
		for ev := range event(events) {
			next, ok := p.next(ev)
			if !ok && next != p {
				t.Errorf("%s is rejected in %s and leads to %s", ev, p, next)
			}
			if p == ending && next != ending {
				t.Errorf("%s leads from the end to %s", ev, next)
			}
			// What exists is not forgotten: neither a start nor a task is left behind.
			if slices.Contains(inStart, p) && !slices.Contains(inStart, next) && ev != onStarted && ev != onFailed && ev != onOverdue {
				t.Errorf("%s leads from %s to %s before the start is decided", ev, p, next)
			}
			if slices.Contains(withTask, p) && !slices.Contains(withTask, next) && ev != onTaskGone && ev != onOverdue {
				t.Errorf("%s leads from %s to %s before the task is gone", ev, p, next)
			}
			if next == ending && p != ending && ev == onStop {
				t.Errorf("Stop in %s ends the executor", p)
			}
		}
		if !ends(p, onCallerGone, onStarted, onTaskGone) && !ends(p, onCall, onStop, onTaskGone, onShutdown) {
			t.Errorf("from %s no start leads to the end", p)
		}
		if !ends(p, onEnd, onFailed, onOverdue) || !ends(p, onEnd, onStarted, onOverdue) {
			t.Errorf("%s can last for ever", p)
		}
	}
}

// ends reports whether events, one after the other, lead from a phase to the end.
func ends(p phase, list ...event) bool {
	for _, ev := range list {
		p, _ = p.next(ev)
	}
	return p == ending
}
