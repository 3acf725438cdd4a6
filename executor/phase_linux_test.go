// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"slices"
	"testing"
)

// TestPhasesEnd holds what is asked of every phase, whatever happens in it.
func TestPhasesEnd(t *testing.T) {
	// inStart are the phases in which Launch is at work, and withTask those with a task that is not gone.
	inStart, withTask := []phase{launching, canceled}, []phase{unconfirmed, running, killing}
	for p := range ending + 1 {
		for ev := range onOverdue + 1 {
			next, ok := p.next(ev)
			if !ok && next != p {
				t.Errorf("%d is rejected in %d and leads to %d", ev, p, next)
			}
			if p == ending && next != ending {
				t.Errorf("%d leads from the end to %d", ev, next)
			}
			// What exists is not forgotten: neither a start nor a task is left behind.
			if slices.Contains(inStart, p) && !slices.Contains(inStart, next) && ev != onStarted && ev != onFailed && ev != onOverdue {
				t.Errorf("%d leads from %d to %d before the start is decided", ev, p, next)
			}
			if slices.Contains(withTask, p) && !slices.Contains(withTask, next) && ev != onTaskGone && ev != onOverdue {
				t.Errorf("%d leads from %d to %d before the task is gone", ev, p, next)
			}
			if next == ending && p != ending && ev == onStop {
				t.Errorf("Stop in %d ends the executor", p)
			}
		}
		if !ends(p, onCallerGone, onStarted, onTaskGone) && !ends(p, onCall, onStop, onTaskGone, onShutdown) {
			t.Errorf("from %d no start leads to the end", p)
		}
		if !ends(p, onEnd, onFailed, onOverdue) || !ends(p, onEnd, onStarted, onOverdue) {
			t.Errorf("%d can last for ever", p)
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
