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

func (c *counts) failures() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.errors)
}
