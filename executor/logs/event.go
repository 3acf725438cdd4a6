// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import "time"

// Kinds of events.
const (
	// KindBlocked says that a disk or quota is full, and that the writers of the stream wait.
	KindBlocked = "log_blocked"
	// KindUnblocked says that the stream is written again, without a loss.
	KindUnblocked = "log_unblocked"
	// KindDropped says that bytes were lost, how many in all, and why.
	KindDropped = "log_dropped"
	// KindAbandoned says that a process outside of the task still holds a stream of the ended task.
	KindAbandoned = "log_abandoned"
	// KindSkipped says that something in the folder was not written to because it cannot be trusted.
	KindSkipped = "log_skipped"
	// KindRemains says that an old file cannot be removed.
	KindRemains = "log_remains"
)

// Event is something a user should know of their logs.
type Event struct {
	Kind string
	// Message is one sentence.
	Message string
	// Annotations have the stream, and numbers where there are any.
	Annotations map[string]string
}

// tellEvery is the shortest time between two events that say the same of a stream: a journal must not be flooded.
const tellEvery = time.Minute

// limiter lets an event pass at most once in tellEvery.
type limiter struct{ last time.Time }

func (l *limiter) pass() bool {
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < tellEvery {
		return false
	}
	l.last = now
	return true
}
