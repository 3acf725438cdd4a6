// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tachograph/tacho/executor/record"
)

// Event is something worth telling a user about a task.
type Event struct {
	TaskID, AllocID, TaskName string
	Timestamp                 time.Time
	// Message is one sentence.
	Message string
	// Annotations are the details, by name.
	Annotations map[string]string
}

// AnnotationRedacted is the annotation with the message of an event for readers who must not see command lines and
// paths.
const AnnotationRedacted = "message_redacted"

// endMessage says how a task ended. Hosts that know no retryable ends read it here.
func endMessage(r *record.Record) string {
	if r.Diagnosis.Retryable {
		return r.Sentence() + "; not the task's fault: another start may end better"
	}
	return r.Sentence()
}

// recordAnnotations are the record's main numbers by name, for programs that read events.
func recordAnnotations(r *record.Record) map[string]string {
	a := r.EndCounters()
	a[AnnotationRedacted], a[record.BasisAnnotation] = endMessage(r.Redacted()), r.AdviceBasis()
	a["verdict"], a["outcome"] = string(r.Diagnosis.Verdict), string(r.Diagnosis.Outcome)
	for name, h := range r.Headline {
		if h.Value != nil {
			a[name] = strconv.FormatFloat(*h.Value, 'f', -1, 64)
			a[name+".guarantee"] = string(h.Guarantee)
		}
	}
	if kills := r.Diagnosis.OOM.Kills; kills != nil {
		a["oom.kills"] = strconv.FormatInt(*kills, 10)
	}
	if scope := r.Diagnosis.OOM.Scope; scope != "" {
		a["oom.scope"] = string(scope)
	}
	if victim := r.Diagnosis.OOM.Victim; victim != nil {
		a["oom.victim"] = fmt.Sprintf("%d (%s)", victim.PID, victim.Command)
	}
	if r.Diagnosis.Stall != "" {
		a["stall"] = r.Diagnosis.StallText()
	}
	if reason := r.Diagnosis.RetryReason(); reason != "" {
		a["retryable"] = reason
	}
	if r.Diagnosis.Operator != "" {
		a["operator"] = r.Diagnosis.Operator
	}
	return a
}
