// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package state persists what an agent has to know after it was killed: jobs, allocations, the states of tasks, their
// drivers' handles, and final records. Each record has a checksum; a damaged database is moved, and its whole records
// are used.
//
//	before it happens   Apply    all changes or none are on disk when it returns
//	after it happened   Persist  what fails is tried again; Health says so meanwhile
package state

import (
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/figures"
)

// Version is the version of the stored form. Fields are only added within one version.
const Version = 1

// Job is one version of a job.
type Job struct {
	ID         string
	Version    uint64
	Source     job.Source
	SubmitTime time.Time
	// Spec is the job that the source came to, and Digests are the digests of its groups: a source is evaluated again
	// only when a task starts.
	Spec    *job.Job
	Digests map[string]string `json:",omitempty"`
	// Current is false for versions that only allocations of old still refer to.
	Current     bool
	Stopped     bool
	CreateIndex uint64
	ModifyIndex uint64
	// Unplaced are the indexes of the allocations that the node could not run yet, by group.
	Unplaced map[string][]int `json:",omitempty"`
}

// Successor is an allocation that is not placed yet.
type Successor struct{ Reschedules }

// Reschedules are when failed allocations before one were replaced.
type Reschedules struct {
	Instants []hook.Instant `json:"RescheduledAt,omitempty"`
	// Times are their wall times, for earlier builds.
	Times []time.Time `json:"Reschedules,omitempty"`
}

// NewReschedules returns reschedules to persist.
func NewReschedules(instants []hook.Instant) Reschedules {
	r := Reschedules{Instants: instants}
	for _, at := range instants {
		r.Times = append(r.Times, at.Wall)
	}
	return r
}

// All returns the reschedules, also of an earlier build.
func (r Reschedules) All() []hook.Instant {
	if len(r.Instants) == len(r.Times) {
		return r.Instants
	}
	all := make([]hook.Instant, len(r.Times))
	for i, at := range r.Times {
		all[i].Wall = at
	}
	return all
}

// Allocation is the persisted state of an allocation without its tasks.
type Allocation struct {
	ID         string
	Namespace  string
	JobID      string
	JobType    string
	JobVersion uint64
	Group      string
	Index      int
	// Digest is that of the group when the allocation was made.
	Digest      string
	Desired     string
	Description string
	CreateTime  time.Time
	ModifyTime  time.Time
	CreateIndex uint64
	ModifyIndex uint64
	// Cores are the cores of tasks that have some for themselves, by task.
	Cores map[string][]int
	// Ports are those of the group, by label.
	Ports map[string]int `json:",omitempty"`
	// Previous is the allocation that this one replaces, Next the one that replaces it.
	Previous, Next string `json:",omitempty"`
	// Successor is the state of the replacement while it waits for a place; nil otherwise.
	Successor *Successor `json:",omitempty"`
	// NotRemoved is why the directory is still there although the allocation was to be removed.
	NotRemoved string `json:",omitempty"`
	Reschedules
}

// Task is the persisted state of a task.
type Task struct {
	State  hook.State
	Events []allocation.Event
	// Starts counts the starts of the task.
	Starts int
	// Ends counts the ends of the task, starts that failed included; the others are those that it is not at fault for.
	Ends, EndsByOperator, EndsByHost int
	// Totals are those of the starts that have ended.
	Totals figures.Totals
	// Outcome is that of the final record of the last start that ended; empty without one.
	Outcome record.Outcome
	// RunID is the driver's id of the last start; empty before the first.
	RunID string
	// Starting is the configuration of a start, persisted before the driver gets it; nil once Handle is set. A later
	// agent adopts the task, see driver.Adopter, or ends it.
	Starting *driver.TaskConfig `json:",omitempty"`
	// Handle identifies the task of the last start for recovery; nil before the first start and after the task was
	// destroyed.
	Handle *driver.TaskHandle
	// Ended is set once the end of the handle's task was handled, except for destroying it in the driver.
	Ended      bool
	Attributes map[string]string
}
