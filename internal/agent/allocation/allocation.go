// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package allocation holds what is known of allocations: one run of a job's group, and its tasks. The values are
// snapshots: a holder may keep one and must not change it.
package allocation

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
)

// Status is what an allocation comes to, in Nomad's words.
type Status string

const (
	// Pending allocations have no task that runs, and one that will.
	Pending Status = "pending"
	// Running allocations have a task that runs.
	Running Status = "running"
	// Complete allocations have ended, and no task failed.
	Complete Status = "complete"
	// Failed allocations have ended, or are about to, because a task was given up.
	Failed Status = "failed"
)

// Ended reports whether no task of such an allocation will run again.
func (s Status) Ended() bool { return s == Complete || s == Failed }

// What an allocation shall do.
const (
	DesiredRun  = "run"
	DesiredStop = "stop"
)

// Watch is the type of the job, the group and the driver of a cgroup that something else made: it is only read.
const Watch = "watch"

// Allocation is one run of a group.
type Allocation struct {
	// ID is a random UUID.
	ID, Namespace  string
	JobID, JobType string
	JobVersion     uint64
	Group          string
	// Name is JOB.GROUP[INDEX].
	Name             string
	Index            int
	NodeID, NodeName string
	ClientStatus     Status
	// Description says why, in a sentence.
	Description   string
	DesiredStatus string
	// CreateIndex and ModifyIndex are those of the event feed.
	CreateTime, ModifyTime   time.Time
	CreateIndex, ModifyIndex uint64
	// Dir is where its logs are.
	Dir   datadir.Allocation
	Tasks map[string]*Task
	// Ports are those of the group.
	Ports []Port
	// Previous is the allocation that this one replaces, Next the one that replaces it; empty if there is none.
	Previous, Next string
	// Rescheduled is when another will take the place of this one, which has failed; zero if none will.
	Rescheduled time.Time
	// Over says that all tasks have ended and that Rescheduled is decided.
	Over bool
}

// Finished is when the last task ended that has; zero if none has.
func (a *Allocation) Finished() (last hook.Instant) {
	for _, t := range a.Tasks {
		own := t.State.Finished
		if own.IsZero() { // of an earlier build
			own.Wall = t.State.FinishedAt
		}
		if !own.IsZero() && (last.IsZero() || own.After(last)) {
			last = own
		}
	}
	return last
}

// Port is a port of an allocation on the node's address. To is what the tasks are told, 0 for Value.
type Port struct {
	Label     string
	Value, To int
	HostIP    string
}

// Task is the state of one task.
type Task struct {
	Name   string
	Driver string
	// Lifecycle is nil for main tasks.
	Lifecycle *job.Lifecycle
	Resources job.Resources
	// Meta is the task's meta data, with that of its group and its job.
	Meta map[string]string
	// NoLogs says that the job wants none.
	NoLogs bool
	// Cores are the cores the task has for itself, as a list such as 0-3,7; empty for all.
	Cores string
	// RunID is the driver's id of the present or last start; empty before the first.
	RunID string
	State hook.State
	// Starts counts the starts that did not fail.
	Starts int
	// Ends counts the ends of the task, starts that failed included; the others are those that it is not at fault for.
	Ends, EndsByOperator, EndsByHost int
	// Outcome is how the last start that ended did, in one word; empty if that is not known.
	Outcome record.Outcome
	// Events are the newest, oldest first; at most MaxEvents.
	Events []Event
	// Attributes are what the driver says of the running task: process, cgroup, limits as read back.
	Attributes map[string]string
	// Stored reads Events and Attributes, which are not in memory once the allocation has ended; nil if they are.
	Stored func() ([]Event, map[string]string)
}

// Details returns events and attributes, wherever they are.
func (t *Task) Details() (events []Event, attributes map[string]string) {
	if t.Stored != nil {
		return t.Stored()
	}
	return t.Events, t.Attributes
}

// LastEnd is how the task last ended, or how its last start failed; the zero value before.
func (t *Task) LastEnd() record.LastEnd {
	end := record.LastEnd{}
	if e := t.State.Exit; e != nil {
		end = record.LastEnd{Outcome: t.Outcome, Cause: string(e.Cause), At: e.At}
		switch { // of earlier builds, and while the record is written
		case end.Outcome != "":
		case e.Lost != "":
			end.Outcome = record.Outcome(record.ExecutorLost)
		case e.OOMKilled:
			end.Outcome = record.OOMKilled
		case e.Signal != 0:
			end.Outcome = record.Outcome(record.Signaled)
		case e.Code != 0:
			end.Outcome = record.Outcome(record.Failed)
		default:
			end.Outcome = record.Outcome(record.Completed)
		}
	}
	for i := range slices.Backward(t.Events) {
		switch e := &t.Events[i]; {
		case e.Time.Before(end.At), e.Type == hook.EventStarted, e.Type == hook.EventTerminated:
			return end
		case e.Type == hook.EventDriverFailure, e.Type == hook.EventHookFailed:
			return record.LastEnd{
				Outcome: record.Outcome(record.StartFailed), Cause: e.Details[DetailCause], At: e.Time,
			}
		}
	}
	return end
}

// MaxEvents is how many events a task keeps.
const MaxEvents = 50

// EventDriver is the type of events that a driver tells.
const EventDriver hook.EventType = "Driver"

// Details of an exit, in Nomad's words.
const (
	DetailExitCode  = "exit_code"
	DetailSignal    = "signal"
	DetailOOMKilled = "oom_killed"
	// DetailCause is on whose account it was, a hook.Cause; Nomad has no word for it.
	DetailCause = "cause"
)

// Event is one line in a task's history.
type Event struct {
	Type    hook.EventType
	Time    time.Time
	Message string
	// Redacted is the message for untrusted callers, where the driver gave one: without command lines and paths.
	Redacted string `json:",omitempty"`
	// Details are the driver's, by name, and of an observed exit the counters of record.EndCounters.
	Details map[string]string `json:",omitempty"`
}

// Public reports whether everybody may see the message and the details of an event. Messages can contain commands and
// files, except that of an observed exit, which is the text of a hook.Exit.
func (e *Event) Public() bool {
	const observedExit = `^exit code \d+(, signal \d+)?(, OOM killed)?$`
	return e.Type == hook.EventTerminated && regexp.MustCompile(observedExit).MatchString(e.Message)
}

// MessageFor returns the message that a caller may see; hidden reports that there is one and none may be seen.
func (e *Event) MessageFor(trusted bool) (message string, hidden bool) {
	if trusted || e.Public() {
		return e.Message, false
	}
	return e.Redacted, e.Redacted == "" && e.Message != ""
}

var (
	// ErrRecovering is wrapped until the tasks of an earlier run of the agent are recovered.
	ErrRecovering = errors.New("the agent is recovering tasks")
	// ErrNotFound is wrapped for an allocation, a task or a job that there is not.
	ErrNotFound = errors.New("not found")
	// ErrChanged says that a job is not what a change of it was derived from.
	ErrChanged = errors.New("the job has changed meanwhile")
	// ErrWatched is wrapped for what would change an allocation that is only watched.
	ErrWatched = errors.New("it is only watched: what started it must do that")
	// ErrAmbiguous is wrapped where a prefix stands for several allocations.
	ErrAmbiguous = errors.New("ambiguous prefix")
)

// NewID returns a random UUID, RFC 9562 version 4.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return formatID(b[:], 4)
}

// StableID returns a UUID, RFC 9562 version 8, that is the same for the same text.
func StableID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return formatID(sum[:], 8)
}

func formatID(b []byte, version byte) string {
	b[6], b[8] = b[6]&0x0f|version<<4, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Find returns the one id that begins with prefix. Errors wrap ErrNotFound or ErrAmbiguous, and say which there are.
func Find(ids []string, prefix string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == prefix {
			return id, nil
		}
		if prefix != "" && strings.HasPrefix(id, prefix) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("allocation %q: %w", prefix, ErrNotFound)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("allocation %q stands for %s: %w", prefix, strings.Join(found, ", "), ErrAmbiguous)
}

// ShortID is the part of an id that people are shown.
func ShortID(id string) string { return id[:min(8, len(id))] }

// NoTask returns the error about a task that an allocation does not have, with those that it has. It is an ErrNotFound.
func NoTask(id, name string, tasks []string) error {
	slices.Sort(tasks)
	return noTask(fmt.Sprintf("allocation %s has no task %q, only %s", ShortID(id), name, strings.Join(tasks, ", ")))
}

type noTask string

func (e noTask) Error() string      { return string(e) }
func (noTask) Is(target error) bool { return target == ErrNotFound }

// IsID reports whether a text has the form of an id.
func IsID(text string) bool {
	const form = "........-....-....-....-............"
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return '.'
		}
		return r
	}, text)
	return digits == form && !strings.Contains(text, ".")
}
