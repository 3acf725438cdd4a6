// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestRestartPolicyValidate(t *testing.T) {
	good := RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: time.Second, Mode: RestartModeFail}
	cases := map[string]struct {
		change func(*RestartPolicy)
		want   string
	}{
		"good":                      {func(*RestartPolicy) {}, ""},
		"delay mode":                {func(p *RestartPolicy) { p.Mode = RestartModeDelay }, ""},
		"no attempts, no interval":  {func(p *RestartPolicy) { p.Attempts, p.Interval = 0, 0 }, ""},
		"negative attempts":         {func(p *RestartPolicy) { p.Attempts = -1 }, "restart attempts: -1: must not be negative"},
		"negative delay":            {func(p *RestartPolicy) { p.Delay = -time.Second }, "restart delay: -1s: must not be negative"},
		"attempts without interval": {func(p *RestartPolicy) { p.Interval = 0 }, "restart interval: 0s: must be positive to count 2 attempts"},
		"mode":                      {func(p *RestartPolicy) { p.Mode = "maybe" }, `restart mode: "maybe": must be "fail" or "delay"`},
	}
	for name, c := range cases {
		policy := good
		c.change(&policy)
		got := ""
		if err := policy.Validate(); err != nil {
			got = err.Error()
		}
		testkit.Equal(t, got, c.want, "%s: Validate =", name)
	}
}

// FuzzRestartPolicy holds the policy to its bounds over any history of failures.
func FuzzRestartPolicy(f *testing.F) {
	f.Add(2, int64(30*time.Minute), int64(15*time.Second), true, int64(time.Second))
	f.Add(3, int64(24*time.Hour), int64(15*time.Second), false, int64(time.Hour))
	f.Add(1, int64(time.Minute), int64(0), true, int64(0))
	f.Fuzz(func(t *testing.T, attempts int, interval, delay int64, delayMode bool, runs int64) {
		policy := RestartPolicy{Attempts: attempts, Interval: time.Duration(interval), Delay: time.Duration(delay), Mode: RestartModeFail}
		if delayMode {
			policy.Mode = RestartModeDelay
		}
		const year = int64(365 * 24 * time.Hour)
		if policy.Validate() != nil || runs < 0 || runs > year || interval > year || delay > year {
			t.Skip("no such policy")
		}
		now := time.Unix(1e9, 0)
		window := RestartWindow{From: Instant{Wall: now}}
		var restarts []time.Time
		for range 50 {
			now = now.Add(time.Duration(runs))
			v := policy.decide(&window, ending{exit: Exit{Code: 1}}, Instant{Wall: now})
			if v.last != "" {
				if policy.Mode == RestartModeDelay && attempts > 0 {
					t.Fatalf("delay mode gave up: %+v", v)
				}
				break
			}
			if longest := max(policy.Delay+policy.Delay/4, policy.Interval); v.delay < policy.Delay || v.delay > longest {
				t.Fatalf("delay %v, want between %v and %v", v.delay, policy.Delay, longest)
			}
			now = now.Add(v.delay)
			restarts = append(restarts, now)
		}
		// Two windows touch any span of one interval; delay mode adds one restart at the end of each.
		for i, at := range restarts {
			n := 0
			for _, other := range restarts[i:] {
				if other.Sub(at) < policy.Interval {
					n++
				}
			}
			if most := 2 * (attempts + 1); attempts < 25 && n > most {
				t.Fatalf("%d restarts in %v, want at most %d", n, policy.Interval, most)
			}
		}
	})
}

func TestExitString(t *testing.T) {
	cases := map[string]struct {
		exit       Exit
		want       string
		successful bool
	}{
		"success": {Exit{}, "exit code 0", true},
		"failure": {Exit{Code: 3}, "exit code 3", false},
		"signal":  {Exit{Code: 143, Signal: 15}, "exit code 143, signal 15", false},
		"oom":     {Exit{Code: 137, Signal: 9, OOMKilled: true}, "exit code 137, signal 9, OOM killed", false},
		"lost":    {Exit{Lost: "executor is gone"}, "lost: executor is gone", false},
	}
	for name, c := range cases {
		if got := c.exit.String(); got != c.want || c.exit.Successful() != c.successful {
			t.Errorf("%s: String = %q, Successful = %t, want %q, %t", name, got, c.exit.Successful(), c.want, c.successful)
		}
	}
}
