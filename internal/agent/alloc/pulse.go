// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// beat is the time between two beats of a pulse, missed the time between two that says that it stood still.
	beat   = time.Second
	missed = 3 * beat
)

// Pulse knows when this process did not run, because it was stopped or starved, or the machine was suspended. What was
// late then is no fault of tasks, drivers or executors. A nil Pulse knows of nothing.
type Pulse struct {
	mu sync.Mutex // guards following
	// last is the last beat, by a clock that goes on while the machine is suspended; until is the end of the last time
	// for which it stood still, on the monotonic clock.
	last, until time.Duration
}

// Run beats until ctx is done, and logs each time for which this process did not run.
func (p *Pulse) Run(ctx context.Context, log hclog.Logger) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		if stood := p.beat(kernel.SinceBoot(), kernel.Now().Mono); stood >= missed {
			log.Warn("the agent did not run, and nothing was read: it was stopped or got no CPU, or the machine was suspended",
				"for", stood.Round(time.Second/10))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// beat returns the time since the last beat.
func (p *Pulse) beat(sinceBoot, mono time.Duration) (stood time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last > 0 {
		stood = sinceBoot - p.last
	}
	if p.last = sinceBoot; stood >= missed {
		p.until = mono
	}
	return stood
}

// StoodSince reports whether this process did not run at some time after since, on the monotonic clock.
func (p *Pulse) StoodSince(since time.Duration) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until > since || p.last > 0 && kernel.SinceBoot()-p.last >= missed // which it has yet to notice
}
