// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestPulse holds that a time without a beat is noticed, by either clock, and what was late then is told apart.
func TestPulse(t *testing.T) {
	for name, test := range map[string]struct {
		boot, mono time.Duration // since the beat before
		stood      bool
	}{
		"runs":                  {beat, beat, false},
		"a little late":         {missed - 1, missed - 1, false},
		"stopped":               {40 * time.Second, 40 * time.Second, true},
		"suspended":             {time.Hour, beat, true},
		"stopped and suspended": {time.Hour, 5 * time.Second, true},
	} {
		p, boot, mono := &Pulse{}, 2*time.Hour, time.Hour
		testkit.Equal(t, p.beat(boot, mono), 0, "%s: the first beat", name)
		testkit.Equal(t, p.beat(boot+test.boot, mono+test.mono), test.boot, "%s: the time since", name)
		testkit.Equal(t, p.until > mono, test.stood, "%s: it stood still", name)
		testkit.Equal(t, p.beat(boot+test.boot+beat, mono+test.mono+beat), beat, "%s: once", name)
		testkit.Equal(t, p.until > mono+test.mono, false, "%s: what came after it", name)
	}
}

// TestUsageOfAStoppedAgent holds that no task is blamed for a time in which the agent did not run, and that its history
// has that time as one without the agent.
func TestUsageOfAStoppedAgent(t *testing.T) {
	t.Parallel()
	for name, noticed := range map[string]bool{"noticed": true, "not yet noticed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines bytes.Buffer
			u := newUsage(t, time.Second, hclog.New(&hclog.LoggerOptions{Output: &lines}))
			now := kernel.Now().Mono
			up := kernel.SinceBoot()
			u.pulse = &Pulse{last: up - 40*time.Second}
			if noticed {
				u.pulse.beat(up, now)
			}
			u.begin(1, time.Time{})
			u.UpdateStats(readingAt(now - 40*time.Second))
			_, silent, why := u.observe(readingAt(now))
			if !silent || why != series.GapAgent {
				t.Errorf("silent: %v, %v, want a gap of the agent", silent, why)
			}
			u.UpdateStats(readingAt(now))
			if text := lines.String(); strings.Contains(text, "longer than collection_interval") {
				t.Errorf("the task is blamed: %s", text)
			}
			testkit.Equal(t, u.counts.Backlogged.Load(), 0, "late samples")
			u.pulse.beat(up, now)
			u.pulse.beat(up+beat, now+beat)
			if late, _, why := u.observe(readingAt(now + 20*time.Second)); late == 0 || why != series.GapSilent {
				t.Errorf("late: %s, %v: a late sample of an agent that ran", late, why)
			}
		})
	}
}
