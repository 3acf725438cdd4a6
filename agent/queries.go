// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/agent/feed"
	"github.com/tachograph/tacho/agent/history"
	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
)

// JobStatus is a job with what became of it.
type JobStatus struct {
	// Job has nothing but its id where the job's file cannot be read by this version of tacho.
	Job     *job.Job
	ID      string
	Version uint64
	// Status is pending, running or dead.
	Status      string
	Stopped     bool
	SubmitTime  time.Time
	CreateIndex uint64
	ModifyIndex uint64
}

// Jobs returns all jobs by id.
func (a *Agent) Jobs() []JobStatus {
	a.mu.Lock()
	ids := slices.Sorted(maps.Keys(a.jobs))
	a.mu.Unlock()
	var all []JobStatus
	for _, id := range ids {
		if s, err := a.Job(id); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// Job returns a job by its exact id. The error wraps allocation.ErrNotFound.
func (a *Agent) Job(id string) (JobStatus, error) {
	a.mu.Lock()
	r := a.jobs[id]
	if r == nil || !r.current.Current {
		a.mu.Unlock()
		return JobStatus{}, fmt.Errorf("job %q: %w", id, allocation.ErrNotFound)
	}
	kept, parsed := r.current, r.versions[r.current.Version]
	a.mu.Unlock()
	if parsed == nil {
		parsed = &job.Job{ID: id, Name: id, Namespace: "default", Type: job.TypeService, Source: kept.Source}
	}
	s := JobStatus{
		Job: parsed, ID: id, Version: kept.Version, Stopped: kept.Stopped, SubmitTime: kept.SubmitTime,
		CreateIndex: kept.CreateIndex, ModifyIndex: kept.ModifyIndex, Status: "dead",
	}
	for _, l := range a.list() {
		if l.job.ID != id {
			continue
		}
		switch statusOf(l.snapshot().Tasks) {
		case allocation.Running:
			s.Status = "running"
			return s, nil
		case allocation.Pending:
			s.Status = "pending"
		}
	}
	return s, nil
}

// Allocations returns snapshots of all allocations, newest first.
func (a *Agent) Allocations() []*allocation.Allocation {
	var all []*allocation.Allocation
	for _, l := range a.list() {
		all = append(all, l.snapshot())
	}
	slices.SortFunc(all, func(x, y *allocation.Allocation) int {
		return cmp.Or(y.CreateTime.Compare(x.CreateTime), cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID))
	})
	return all
}

// Allocation returns the one allocation whose id begins with prefix. Errors wrap allocation.ErrNotFound or
// allocation.ErrAmbiguous.
func (a *Agent) Allocation(prefix string) (*allocation.Allocation, error) {
	a.mu.Lock()
	ids := slices.Sorted(maps.Keys(a.allocs))
	a.mu.Unlock()
	id, err := allocation.Find(ids, prefix)
	if err != nil {
		return nil, err
	}
	l, err := a.find(id)
	if err != nil {
		return nil, err
	}
	return l.snapshot(), nil
}

// ended is called when an allocation has ended.
func (a *Agent) ended(l *alloc) {
	status, err := a.Job(l.job.ID)
	if err == nil && status.Status == "dead" {
		a.feed.Publish(feed.Event{Topic: feed.TopicJob, Type: "JobUpdated", Key: l.job.ID, Namespace: l.job.Namespace})
	}
}

// Stats returns what the tasks of an allocation use, by task.
func (a *Agent) Stats(allocID string) (map[string]allocation.Usage, error) {
	l, err := a.find(allocID)
	if err != nil {
		return nil, err
	}
	_, off := a.Publishing()
	all := make(map[string]allocation.Usage, len(l.tasks))
	for _, t := range l.tasks {
		all[t.spec.Name] = t.usage.snapshot(off)
	}
	return all, nil
}

// History returns the kept readings of a task, oldest first. name may be empty where there is only one.
func (a *Agent) History(allocID, name string, q history.Query) ([]history.Point, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return nil, err
	}
	return t.usage.history.Points(q)
}

// At returns the reading of a task nearest to a time. The error wraps allocation.ErrNotFound where there is none.
func (a *Agent) At(allocID, name string, at time.Time) (history.Point, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return history.Point{}, err
	}
	p, ok, err := t.usage.history.At(at)
	if err != nil {
		return p, err
	}
	if !ok {
		return p, fmt.Errorf("reading of task %s: %w", t.spec.Name, allocation.ErrNotFound)
	}
	return p, nil
}

// Record returns the final record of a task's last ended start. The error wraps allocation.ErrNotFound where no
// start has ended.
func (a *Agent) Record(allocID, name string) (*record.Record, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return nil, err
	}
	r, err := a.store.Record(allocID, t.spec.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("final record of task %s: %w", t.spec.Name, allocation.ErrNotFound)
	}
	return r, err
}

// streamOf checks the name of a stream, which becomes part of a file's.
func streamOf(stream string) error {
	if stream != "stdout" && stream != "stderr" {
		return fmt.Errorf("stream %q is neither stdout nor stderr: %w", stream, driver.ErrInvalid)
	}
	return nil
}

// LogFiles returns the paths of a task's log files of one stream (stdout or stderr), oldest first.
func (a *Agent) LogFiles(allocID, name, stream string) ([]string, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return nil, err
	}
	if err := streamOf(stream); err != nil {
		return nil, err
	}
	return t.alloc.dir.LogFiles(t.spec.Name, stream)
}

// OpenLog opens the log files of one stream as one, for reading from the first byte that is kept. The error wraps
// fs.ErrNotExist where nothing was written yet. A reader at the end sees what is appended, until the file is
// rotated: then it stays at the end, and the log has to be opened again.
func (a *Agent) OpenLog(allocID, name, stream string) (io.ReadSeekCloser, error) {
	log, _, err := a.OpenLogAfter(allocID, name, stream, "")
	return log, err
}

// OpenLogAfter is OpenLog for the files that follow one of them, which may be gone meanwhile; empty for all. It returns
// the paths of those that it opened too, oldest first.
func (a *Agent) OpenLogAfter(allocID, name, stream, path string) (io.ReadSeekCloser, []string, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return nil, nil, err
	}
	if err := streamOf(stream); err != nil {
		return nil, nil, err
	}
	log, err := t.alloc.dir.OpenLogAfter(t.spec.Name, stream, path)
	if err != nil {
		return nil, nil, err
	}
	return log, log.Files(), nil
}

// Subscribe begins to read the event feed behind an index; 0 begins with the oldest event that is kept. It is called
// after Ready.
func (a *Agent) Subscribe(after uint64) *feed.Subscription { return a.feed.Subscribe(after) }

// Index returns the index of the newest event.
func (a *Agent) Index() uint64 {
	if a.isReady() != nil {
		return 0
	}
	return a.feed.Index()
}

// Publishing reports whether tasks are read; reason says why not.
func (a *Agent) Publishing() (on bool, reason string) {
	if a.current().Telemetry.PublishAllocationMetrics {
		return true, ""
	}
	return false, "publishing is off: set publish_allocation_metrics = true in the telemetry block and reload (SIGHUP)"
}

// Self returns the configuration in force. It has no secrets in it.
func (a *Agent) Self() config.Config { return a.current() }
