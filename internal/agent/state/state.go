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

// Version is that of the stored form. Fields are only added under one version.
const Version = 1

// Job is one version of a job.
type Job struct {
	ID         string
	Version    uint64
	Source     job.Source
	SubmitTime time.Time
	// Spec is what the source came to, and Digests are those of its groups: a source is not evaluated again before a task
	// starts. Versions that an earlier tacho persisted have none.
	Spec    *job.Job          `json:",omitempty"`
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
type Successor struct {
	Reschedules []time.Time `json:",omitempty"`
}

// Allocation is what is kept of an allocation beside its tasks.
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
	// Successor is what the allocation that replaces this one begins with, while it waits for a place; nil if none waits.
	Successor *Successor `json:",omitempty"`
	// Reschedules are when failed ones before this one were replaced.
	Reschedules []time.Time `json:",omitempty"`
}

// Task is what is kept of a task.
type Task struct {
	State  hook.State
	Events []allocation.Event
	// Starts counts the starts of the task.
	Starts int
	// Ends counts the ends of the task, starts that failed included.
	Ends int
	// Totals are those of the starts that have ended.
	Totals figures.Totals
	// Outcome is how the last start ended, by its final record; empty while it runs, and if there is no record.
	Outcome record.Outcome
	// RunID is the driver's id of the last start; empty before the first.
	RunID string
	// Starting is what the driver is told to start, persisted before it is; nil once Handle is. A later run of the agent
	// adopts the task, see driver.Adopter, or ends it.
	Starting *driver.TaskConfig `json:",omitempty"`
	// Handle is the driver's of the last start; nil before the first and once the driver was told to forget it.
	Handle *driver.TaskHandle
	// Ended says that the handle's task has ended and was dealt with, but for its end in the driver.
	Ended      bool
	Attributes map[string]string
}
