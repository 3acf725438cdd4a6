// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package alloc runs allocations and their tasks: it starts, recovers, restarts and stops them, and makes their final
// records.
//
//	Alloc ──plan──► Tasks, each with a hook.Runner
//	                  ├── Starter: directories, templates, environment, driver
//	                  ├── Observer: the state store first, then the event feed
//	                  └── StatsHook ──► usage: figures, history
package alloc

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Host is what the allocations of an agent share. Its fields do not change once there is an allocation.
type Host struct {
	// Context ends with the agent, which then waits for Work.
	Context context.Context
	Work    sync.WaitGroup
	Log     hclog.Logger
	Config  func() config.Config
	// Dir has the directories of all allocations.
	Dir     string
	Node    node.Node
	Driver  *Driver
	Store   *state.Store
	Feed    *snapshot.Feed
	History *series.Writer
	Counts  Counts
	Pulse   Pulse
	// Clock replaces the clocks of the machine in tests; nil otherwise.
	Clock func() hook.Instant

	// Find returns an allocation by its ID, nil if it is unknown.
	Find func(id string) *Alloc
	// Ended is called when an allocation has ended, Failed then and when it is restored, if it is to be rescheduled.
	Ended, Failed func(*Alloc)
}

// bootID names the boot of the machine; empty if the system does not tell.
//
//nolint:gochecknoglobals // it does not change while a process runs
var bootID = sync.OnceValue(func() string {
	boot, _ := kernel.BootID(kernel.HostFS()) // the wall clock counts then
	return boot
})

// Now is the present.
func (h *Host) Now() hook.Instant {
	if h.Clock != nil {
		return h.Clock()
	}
	return hook.Instant{Wall: time.Now(), Boot: bootID(), Up: kernel.SinceBoot()}
}

// Apply persists what is about to happen. After an error it must not.
func (h *Host) Apply(changes ...state.Change) error {
	err := h.Store.Failing()
	if err == nil {
		err = h.Store.Apply(changes...)
	}
	if err != nil {
		h.Counts.Fail("state")
	}
	return err
}

// Persist persists what has happened. A failure is retried, and Health reports it meanwhile.
func (h *Host) Persist(changes ...state.Change) {
	if err := h.Store.Persist(changes...); err != nil {
		h.StateChanged(err)
	}
}

// StateChanged logs that the state cannot be persisted, or can be again.
func (h *Host) StateChanged(err error) {
	if err == nil {
		h.Log.Info("the state is persisted again")
		return
	}
	h.Log.Error("persist state; trying again", "error", err)
	h.Counts.Fail("state")
}

// Counts are what an agent counts of its own work.
type Counts struct {
	Samples, Backlogged atomic.Int64

	mu     sync.Mutex // guards errors
	errors map[string]int64
}

// Fail counts a failure by what failed.
func (c *Counts) Fail(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = make(map[string]int64)
	}
	c.errors[what]++
}

// Failures returns all counts, zeros included: a series that begins with its first failure shows no increase.
func (c *Counts) Failures() map[string]int64 {
	all := make(map[string]int64)
	for _, what := range [...]string{"gc", "history", "orphans", "placement", "recovery", "reschedule", "state"} {
		all[what] = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(all, c.errors)
	return all
}
