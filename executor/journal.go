// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/eventlog"
	"github.com/tachograph/tacho/procstats"
)

// maxEvents bounds the journal: events are rare, and a task that makes many (OOM kills in a loop) must not make
// its executor grow.
const maxEvents = 256

// journal is the log of what happened to the task.
type journal struct {
	*eventlog.Log[*proto.Event]
	// notify is called after each event.
	notify func()
}

func newJournal() *journal {
	return &journal{Log: eventlog.New[*proto.Event](maxEvents, 0), notify: func() {}}
}

// add appends an event.
//
// Names of processes are in it, which may have any bytes; a caller of an older build takes none but UTF-8.
func (j *journal) add(kind, message string, annotations map[string]string) {
	message = readable(message)
	for key, text := range annotations {
		annotations[key] = readable(text)
	}
	j.Append(func(n uint64) *proto.Event {
		return &proto.Event{
			Sequence: n, UnixNs: time.Now().UnixNano(), Kind: kind, Message: message, Annotations: annotations,
		}
	})
	j.notify()
}

// addOutside reports processes that were seen outside the task's cgroup.
func (j *journal) addOutside(main int, seen []procstats.ProcessID) {
	if slices.ContainsFunc(seen, func(p procstats.ProcessID) bool { return p.PID == main }) {
		j.add("left_cgroup", "the main process left its cgroup: the cgroup's totals are not the task's", nil)
		return
	}
	what := procstats.Counted(len(seen), "process runs", "processes run")
	j.add("left_cgroup", what+" outside the task's cgroup: the cgroup's totals are not the task's", nil)
}

// readable is a text without bytes that are no UTF-8.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
