// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// before returns how long before a time others were.
func before(at time.Time, past []time.Time) (ago []time.Duration) {
	for _, earlier := range past {
		ago = append(ago, at.Sub(earlier))
	}
	return ago
}

func TestRescheduleDelays(t *testing.T) {
	base := Reschedule{Delay: 5 * time.Second, MaxDelay: time.Minute, Unlimited: true}
	for function, want := range map[string]string{
		DelayConstant: "5s 5s 5s 5s 5s 5s", DelayExponential: "5s 10s 20s 40s 1m0s 1m0s", DelayFibonacci: "5s 5s 10s 15s 25s 40s",
	} {
		r := base
		r.DelayFunction = function
		at := time.Unix(1000, 0)
		var past []time.Time
		var got []string
		for range 6 {
			delay, ok := r.Next(before(at, past))
			if !ok {
				t.Fatalf("%s: not replaced after %d", function, len(past))
			}
			got = append(got, delay.String())
			at = at.Add(delay)
			past = append(past, at)
			at = at.Add(time.Second)
		}
		testkit.Equal(t, strings.Join(got, " "), want, "%s", function)
		if delay, _ := r.Next(before(at.Add(time.Hour), past)); delay != 5*time.Second {
			t.Errorf("%s: %s after an allocation that ran for an hour", function, delay)
		}
	}
}

func TestRescheduleAttempts(t *testing.T) {
	r := Reschedule{Attempts: 2, Interval: time.Hour, Delay: 5 * time.Second, DelayFunction: DelayConstant}
	for _, test := range []struct {
		ago  []time.Duration
		want bool
	}{{nil, true}, {[]time.Duration{30 * time.Minute}, true}, {[]time.Duration{30 * time.Minute, time.Minute}, false}, {[]time.Duration{2 * time.Hour, time.Minute}, true}} {
		if _, ok := r.Next(test.ago); ok != test.want {
			t.Errorf("after reschedules %v ago: %t", test.ago, ok)
		}
	}
	if _, ok := new(Reschedule).Next(nil); ok {
		t.Error("without a policy an allocation is replaced")
	}
}

func TestRescheduleBlocks(t *testing.T) {
	read := func(kind, inJob, inGroup string) Reschedule {
		return parse(t, "job \"j\" {\ntype = \""+kind+"\"\n"+inJob+"\ngroup \"g\" {\n"+inGroup+
			"\ntask \"t\" {\ndriver = \"tacho\"\n}\n}\n}").Groups[0].Reschedule
	}
	if r := read("service", "", ""); !r.Unlimited || r.Delay != 30*time.Second {
		t.Errorf("a service: %+v", r)
	}
	if r := read("batch", "", ""); r.Unlimited || r.Attempts != 1 || r.Interval != 24*time.Hour || r.Delay != 5*time.Second {
		t.Errorf("a batch job: %+v", r)
	}
	testkit.Equal(t, read("sysbatch", "", ""), (Reschedule{}), "a sysbatch job")
	const limited = "reschedule {\nattempts = 3\ninterval = \"1h\"\n}"
	if r := read("service", limited, ""); r.Unlimited || r.Attempts != 3 {
		t.Errorf("limited by the job: %+v", r)
	}
	if r := read("service", limited, "reschedule {\nunlimited = true\n}"); !r.Unlimited {
		t.Errorf("unlimited by the group: %+v", r)
	}
}
