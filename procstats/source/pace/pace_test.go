// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package pace

import (
	"strings"
	"testing"
	"time"
)

// TestPacer lets ticks cost something, and holds what all paces spend against the budget.
func TestPacer(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name      string
		budget    float64
		requested []time.Duration
		cost      func(tick int) time.Duration
		stretched string // what the last text has in it; empty for none
	}{
		{"cheap", 0, []time.Duration{10 * ms}, func(int) time.Duration { return ms / 10 }, ""},
		{"500 processes", 0, []time.Duration{10 * ms}, func(int) time.Duration { return 7 * ms }, "from 10ms to 350ms: a sample takes 7 ms of CPU time, and the sampling budget is 2 %"},
		{"larger budget", 0.5, []time.Duration{10 * ms}, func(int) time.Duration { return 7 * ms }, "from 10ms to 20ms"},
		{"two readers", 0, []time.Duration{10 * ms, 50 * ms}, func(int) time.Duration { return 4 * ms }, "to "},
		{"grows", 0, []time.Duration{10 * ms}, func(tick int) time.Duration { return time.Duration(min(tick, 80)) * ms / 10 }, "from 10ms to "},
		{"now and then", 0, []time.Duration{10 * ms}, func(tick int) time.Duration {
			if tick%10 == 0 {
				return 5 * ms
			}
			return ms / 10
		}, "from 10ms to 250ms"},
		{"one that takes a minute of CPU time", 0, []time.Duration{time.Second}, func(int) time.Duration { return 100 * ms }, "from 1s to 5s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var used, spent time.Duration
			text := ""
			p := New(test.budget, func() time.Duration { return used }, func(s string) { text = s })
			var paces []*Pace
			for _, requested := range test.requested {
				paces = append(paces, p.Start(requested))
			}
			const ticks = 300
			share := 0.0
			for _, pace := range paces {
				var wall time.Duration
				spent = 0
				for tick := range ticks {
					interval := pace.Tick(func() {
						used += test.cost(tick)
						spent += test.cost(tick)
					})
					if interval < pace.requested || interval%pace.requested != 0 {
						t.Fatalf("interval %s, want a multiple of %s", interval, pace.requested)
					}
					wall += interval
				}
				share += max(0, spent-burst).Seconds() / wall.Seconds()
			}
			if share > p.budget*1.001 {
				t.Errorf("%.4f of a core spent, want at most %.4f", share, p.budget)
			}
			if (text == "") != (test.stretched == "") || !strings.Contains(text, test.stretched) || p.Note() != text {
				t.Errorf("said %q and noted %q, want %q", text, p.Note(), test.stretched)
			}
			for _, pace := range paces {
				pace.End()
			}
			if _, _, ok := p.Intervals(); ok {
				t.Error("an interval is left")
			}
		})
	}
}

// TestAffords holds that what is dear waits until the budget has room for it, and that it is paid for.
func TestAffords(t *testing.T) {
	p := New(0.02, nil, func(string) {}).Start(time.Second)
	const inBurst, inSecond = float64(burst / processPrice), float64(time.Second / processPrice)
	for _, tasks := range []float64{inBurst + 10, inSecond, 0, inBurst / 2} {
		if got := p.AffordsRows(tasks); got != (tasks <= inBurst) {
			t.Errorf("at the start it affords %v processes: %t", tasks, got)
		}
	}
	ticks := 0
	for ; !p.AffordsRows(inSecond + inBurst/2); ticks++ {
		if interval := p.Spend(0); interval != time.Second {
			t.Errorf("the totals are read after %s", interval)
		}
	}
	if want := 45; ticks != want { // 0.9 s at 20 ms each
		t.Errorf("1 s of CPU time after %d ticks, want %d", ticks, want)
	}
	if interval := p.Spend(time.Second); interval != time.Second {
		t.Errorf("the totals wait for %s because of the rows", interval)
	}
	if ticks = 0; p.AffordsRows(0) {
		t.Error("it affords rows right after that")
	}
	for ; !p.AffordsRows(inSecond); ticks++ {
		p.Spend(time.Millisecond)
	}
	if want := 47; ticks != want { // 0.88 s at 19 ms each
		t.Errorf("rows after %d ticks, want %d", ticks, want)
	}
}
