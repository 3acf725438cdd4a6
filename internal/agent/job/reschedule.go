// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Reschedule says when a failed allocation is replaced by another. The zero value means never.
type Reschedule struct {
	// Attempts are the most within Interval, if it is not Unlimited.
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string
	MaxDelay      time.Duration
	Unlimited     bool
}

// The ways in which the delay grows.
const (
	DelayConstant    = "constant"
	DelayExponential = "exponential"
	DelayFibonacci   = "fibonacci"
)

// defaultReschedule is Nomad's: services are replaced again and again, batch jobs once a day, and those that run on
// every node never.
func defaultReschedule(jobType string) Reschedule {
	switch jobType {
	case TypeService:
		return Reschedule{DelayFunction: DelayExponential, Delay: 30 * time.Second, MaxDelay: time.Hour, Unlimited: true}
	case TypeBatch:
		return Reschedule{DelayFunction: DelayConstant, Delay: 5 * time.Second, Attempts: 1, Interval: 24 * time.Hour}
	}
	return Reschedule{}
}

// OfHost returns the policy for failures on the host's account, which take no attempt.
func (r Reschedule) OfHost() Reschedule {
	if r.Unlimited = true; r.Delay == 0 {
		return defaultReschedule(TypeService)
	}
	return r
}

// Next returns how long after its failure an allocation is replaced; past is how long before it each of the earlier
// ones was. ok is false if it is not replaced.
func (r *Reschedule) Next(past []time.Duration) (delay time.Duration, ok bool) {
	within := 0
	for _, ago := range past {
		if ago < r.Interval {
			within++
		}
	}
	if !r.Unlimited && within >= r.Attempts {
		return 0, false
	}
	// Who ran for longer than the longest delay begins anew.
	if n := len(past); n > 0 && r.MaxDelay > 0 && past[n-1] > r.MaxDelay {
		past = nil
	}
	delay, before := r.Delay, time.Duration(0)
	for range past {
		switch r.DelayFunction {
		case DelayExponential:
			delay *= 2
		case DelayFibonacci:
			delay, before = delay+before, delay
		}
		if r.MaxDelay > 0 && delay >= r.MaxDelay {
			return r.MaxDelay, true
		}
	}
	return delay, true
}

func (d *decoder) reschedule(into *Reschedule) func(*hclsyntax.Block) {
	return func(b *hclsyntax.Block) {
		_, limited := b.Body.Attributes["attempts"]
		into.Unlimited = into.Unlimited && !limited
		d.body("reschedule", b.Body, fields{attributes: map[string]func(*hclsyntax.Attribute){
			"attempts": d.number(&into.Attempts, 0, maxInt),
			"interval": d.duration(&into.Interval), "delay": d.duration(&into.Delay),
			"delay_function": d.word(&into.DelayFunction, DelayConstant, DelayExponential, DelayFibonacci),
			"max_delay":      d.duration(&into.MaxDelay), "unlimited": d.flag(&into.Unlimited),
		}})
		if into.Delay < 5*time.Second && (into.Unlimited || into.Attempts > 0) {
			d.errorf(b.TypeRange, "Invalid value", "reschedule: delay must be at least 5s")
		}
	}
}
