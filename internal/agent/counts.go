// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"maps"
	"sync"
	"sync/atomic"
)

// counts are what the agent counts of its own work.
type counts struct {
	samples, backlogged atomic.Int64

	mu     sync.Mutex // guards following
	errors map[string]int64
}

// fail counts a failure by what failed.
func (c *counts) fail(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = make(map[string]int64)
	}
	c.errors[what]++
}

// failures returns all counts, those of what has not failed too: a series that begins with its first failure shows no increase.
func (c *counts) failures() map[string]int64 {
	all := make(map[string]int64)
	for _, what := range [...]string{"gc", "history", "logs", "orphans", "placement", "plugin", "recovery", "reschedule", "state"} {
		all[what] = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(all, c.errors)
	return all
}
