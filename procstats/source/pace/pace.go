// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package pace stretches the intervals at which tasks are sampled, so that it costs no more than it may.
package pace

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// defaultBudget is the share of one core that sampling a task may take.
const defaultBudget = 0.02

// longestStretched is the longest interval that a budget stretches another to.
const longestStretched = time.Minute

// burst is what may be spent beyond the budget before intervals are stretched: the first samples of a task cost most,
// and a short run has no others.
const burst = 100 * time.Millisecond

// Pacer stretches the intervals at which a task is sampled, so that all together take no more than the budget.
type Pacer struct {
	budget    float64 // share of one core
	usage     func() time.Duration
	stretched func(text string)

	mu    sync.Mutex // guards following, and the paces
	paces []*Pace
	// text says how far an interval was stretched at most; empty if none was.
	text string
}

// Pace is one interval of a pacer.
type Pace struct {
	pacer               *Pacer
	requested, interval time.Duration
	// cost is what a tick takes, smoothed; most is the longest interval so far.
	cost, most time.Duration
	// credit is what is left of the burst, saved what all ticks so far have left of their shares, below 0 if they took
	// more.
	credit, saved time.Duration
	// rows reports that the current tick reads the process rows, tasks how many processes and threads the last look had.
	rows  bool
	tasks float64
}

// New returns one with a budget, a share of one core; 0 is the default. usage returns the CPU time of the thread: a
// tick does not pay for what it waits for. stretched is told when an interval becomes longer than ever before, and at
// least twice as long.
func New(budget float64, usage func() time.Duration, stretched func(text string)) *Pacer {
	return &Pacer{budget: cmp.Or(budget, defaultBudget), usage: usage, stretched: stretched}
}

// Start adds an interval; End removes it.
func (p *Pacer) Start(requested time.Duration) *Pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	pace := &Pace{pacer: p, requested: requested, interval: requested, most: requested, credit: burst}
	p.paces = append(p.paces, pace)
	return pace
}

// Requested is the interval that was asked for.
func (r *Pace) Requested() time.Duration { return r.requested }

// Interval is what it is now.
func (r *Pace) Interval() time.Duration {
	r.pacer.mu.Lock()
	defer r.pacer.mu.Unlock()
	return r.interval
}

// End removes the interval.
func (r *Pace) End() {
	r.pacer.mu.Lock()
	defer r.pacer.mu.Unlock()
	r.pacer.paces = slices.DeleteFunc(r.pacer.paces, func(other *Pace) bool { return other == r })
}

// processPrice is about what the first look at a process takes: its files are opened.
const processPrice = 100 * time.Microsecond

// AffordsRows reports whether the budget has room by now for a tick that reads all processes as well: so many, with
// their threads. The rows have to wait until the ticks before are paid for, and the price of new processes is known
// before it is paid; the totals do not wait for what the rows took.
func (r *Pace) AffordsRows(tasks float64) bool {
	r.pacer.mu.Lock()
	defer r.pacer.mu.Unlock()
	price := time.Duration(max(0, tasks-r.tasks)) * processPrice
	if r.rows = r.credit > 0 && price <= burst+max(0, r.saved); r.rows {
		r.tasks = tasks
	}
	return r.rows
}

// Tick does what is done once an interval and returns the interval until the next one: a multiple of the requested
// one, so long that this tick takes no more than its share of it.
func (r *Pace) Tick(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := r.pacer.usage()
	do()
	return r.Spend(r.pacer.usage() - before)
}

// Spend is Tick for one whose CPU time is known.
func (r *Pace) Spend(cost time.Duration) time.Duration {
	text := r.spent(cost)
	if text != "" {
		r.pacer.stretched(text)
	}
	return r.interval
}

// spent sets the interval after a tick, and says so if it is longer than ever.
func (r *Pace) spent(cost time.Duration) (text string) {
	p := r.pacer
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.budget / float64(max(1, len(p.paces)))
	left := time.Duration(share*float64(r.interval)) - cost
	r.saved += left
	r.credit = min(burst, r.credit+left)
	rows := r.rows
	if r.rows = false; !rows {
		r.cost += (cost - r.cost) / 4 //nolint:mnd // smooths over a few ticks
	}
	if r.credit > 0 || rows {
		r.interval = r.requested
		return ""
	}
	intervals := math.Ceil(float64(max(cost, r.cost)) / (share * float64(r.requested)))
	most := max(1, float64(longestStretched/r.requested))
	r.interval = r.requested * time.Duration(max(1, min(intervals, most)))
	if r.interval < 2*r.most {
		return ""
	}
	r.most = r.interval
	p.text = fmt.Sprintf("sampling interval stretched from %s to %s: a sample takes %s of CPU time, "+
		"and the sampling budget is %s of one core",
		r.requested, r.interval, procstats.Seconds.Text(cost.Seconds()), procstats.Share.Text(p.budget))
	return p.text
}

// Note says how far an interval was stretched at most; empty if none was.
func (p *Pacer) Note() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text
}

// Intervals are the shortest requested interval and what it is now; ok is false while nothing is sampled.
func (p *Pacer) Intervals() (requested, now time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pace := range p.paces {
		if !ok || pace.requested < requested {
			requested, now, ok = pace.requested, pace.interval, true
		}
	}
	return requested, now, ok
}

// Put puts what Intervals returns into a sample, as far as it is selected; why is the reason if nothing is sampled.
func (p *Pacer) Put(into *procstats.Sample, selection procstats.Selection, why string) {
	requested, now, ok := p.Intervals()
	if ok {
		why = ""
	}
	into.SetSelected(selection, procstats.ExecutorInterval, now.Seconds(), why)
	into.SetSelected(selection, procstats.ExecutorIntervalRequested, requested.Seconds(), why)
}
