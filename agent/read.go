// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"io"
	"time"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/agent/feed"
	"github.com/tachograph/tacho/agent/history"
	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/agent/node"
	"github.com/tachograph/tacho/executor/record"
)

// JobStatus is a job with what became of it.
type JobStatus struct {
	Job     *job.Job
	Version uint64
	// Status is pending, running or dead.
	Status      string
	Stopped     bool
	SubmitTime  time.Time
	CreateIndex uint64
	ModifyIndex uint64
}

// Jobs returns all jobs by id.
func (a *Agent) Jobs() []JobStatus { return nil }

// Job returns a job by its exact id. The error wraps allocation.ErrNotFound.
func (a *Agent) Job(id string) (JobStatus, error) { return JobStatus{}, errNotReady }

// Allocations returns snapshots of all allocations, newest first.
func (a *Agent) Allocations() []*allocation.Allocation { return nil }

// Allocation returns the one allocation whose id begins with prefix. Errors wrap allocation.ErrNotFound or
// allocation.ErrAmbiguous.
func (a *Agent) Allocation(prefix string) (*allocation.Allocation, error) { return nil, errNotReady }

// Stats returns what the tasks of an allocation use, by task.
func (a *Agent) Stats(allocID string) (map[string]allocation.Usage, error) { return nil, errNotReady }

// History returns the kept readings of a task, oldest first.
func (a *Agent) History(allocID, task string, q history.Query) ([]history.Point, error) {
	return nil, errNotReady
}

// At returns the reading of a task nearest to a time.
func (a *Agent) At(allocID, task string, at time.Time) (history.Point, error) {
	return history.Point{}, errNotReady
}

// Record returns the final record of a task's last ended start. The error wraps allocation.ErrNotFound where no
// start has ended.
func (a *Agent) Record(allocID, task string) (*record.Record, error) { return nil, errNotReady }

// LogFiles returns the paths of a task's log files of one stream (stdout or stderr), oldest first.
func (a *Agent) LogFiles(allocID, task, stream string) ([]string, error) { return nil, errNotReady }

// OpenLog opens the log files of one stream as one, for reading from the first byte that is kept.
func (a *Agent) OpenLog(allocID, task, stream string) (io.ReadSeekCloser, error) {
	return nil, errNotReady
}

// Subscribe begins to read the event feed behind an index; 0 begins with the oldest event that is kept.
func (a *Agent) Subscribe(after uint64) *feed.Subscription { return nil }

// Index returns the index of the newest event.
func (a *Agent) Index() uint64 { return 0 }

// Node returns what machine this is, with its drivers.
func (a *Agent) Node() node.Node { return node.Node{} }

// NodeStats reads what the machine uses.
func (a *Agent) NodeStats(ctx context.Context) (*node.Stats, error) { return nil, errNotReady }

// Publishing reports whether tasks are read; reason says why not.
func (a *Agent) Publishing() (on bool, reason string) { return false, "" }

// Self returns the configuration in force. It has no secrets in it.
func (a *Agent) Self() config.Config { return a.config }

// Cost is what the agent's own process uses.
type Cost struct {
	CPUSeconds float64
	// RSSBytes is 0 where it could not be read.
	RSSBytes   int64
	Goroutines int
	Uptime     time.Duration
	// Samples and Backlogged count readings taken and readings that came more than an interval late.
	Samples, Backlogged int64
	// Errors counts failures by what failed.
	Errors map[string]int64
}

// Cost returns what the agent costs.
func (a *Agent) Cost() Cost { return Cost{} }
