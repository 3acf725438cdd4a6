// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// usage returns what some tasks of an allocation use, and has their processes read more often for a while.
func (s *Server) usage(q *request, now *snapshot.Agent, a *allocation.Allocation, tasks []string) *allocationUsage {
	usages := make(map[string]*figures.Figures, len(tasks))
	for _, name := range tasks {
		u := now.UsageFor(a.Tasks[name], q.trusted)
		if u.Look != nil {
			u.Look()
		}
		usages[name] = onlyProcess(u, q.process())
	}
	return newAllocationUsage(usages, now, s.now())
}

// stats with ?at= is the stored reading nearest to a time.
func (s *Server) stats(q *request, a *allocation.Allocation) (any, error) {
	if q.values.Has("at") {
		return s.history(q, a)
	}
	tasks, err := q.tasksOf(a)
	if err != nil {
		return nil, err
	}
	var known processNames
	for _, name := range tasks {
		if u := q.now.Usage(a.Tasks[name]); u.Sample != nil {
			known.add(u.Sample.Processes)
		}
	}
	if err := known.check(q.process()); err != nil {
		return nil, err
	}
	return s.usage(q, q.now, a, tasks), nil
}

func (s *Server) allStats(q *request) (any, error) {
	all := map[string]*allocationUsage{}
	for _, a := range q.now.Allocations {
		if !a.ClientStatus.Ended() && q.inNamespace(a.Namespace) {
			all[a.ID] = s.usage(q, q.now, a, slices.Collect(maps.Keys(a.Tasks)))
		}
	}
	return all, nil
}

// statsStream sends server-sent events (HTML standard, 9.2). Each reading is an event "stats" with the JSON of a
// single request, and the end of the allocation is an event "end".
func (s *Server) statsStream(ctx context.Context, w http.ResponseWriter, q *request) error {
	a, err := s.agent.Snapshot().Allocation(q.id())
	if err != nil {
		return err
	}
	tasks, err := q.tasksOf(a)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	out := s.newStreamWriter(w, q)
	var last []byte
	silent := time.Now()
	for {
		now := s.agent.Snapshot(a.ID)
		a, err := now.Allocation(a.ID)
		if err != nil {
			_ = out.Send([]byte("event: end\ndata: {\"reason\":\"the allocation was removed\"}\n\n"))
			return nil
		}
		u := s.usage(q, now, a, tasks)
		mark, wait := markOf(u, a), s.tick(u)
		switch {
		case !bytes.Equal(mark, last):
			text, err := json.Marshal(u)
			if err != nil || out.Send(fmt.Appendf(nil, "event: stats\nid: %d\ndata: %s\n\n", u.Timestamp, text)) != nil {
				return nil
			}
			last, silent = mark, time.Now()
		case time.Since(silent) >= s.heartbeat:
			if out.Send([]byte(": nothing new\n\n")) != nil {
				return nil
			}
			silent = time.Now()
		}
		if isOver(a, q.values.Get("task")) {
			_ = out.Send(fmt.Appendf(nil, "event: end\ndata: {\"status\":%q}\n\n", a.ClientStatus))
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// isOver reports whether an allocation, or the one task of it that is named, has ended.
func isOver(a *allocation.Allocation, task string) bool {
	t := a.Tasks[task]
	return a.ClientStatus.Ended() || t != nil && t.State.Phase == hook.PhaseDead
}

// tick returns a quarter of the shortest interval between readings.
func (s *Server) tick(u *allocationUsage) time.Duration {
	tick := time.Second
	for _, t := range u.Tacho.Tasks {
		if t.IntervalSeconds > 0 {
			tick = min(tick, time.Duration(t.IntervalSeconds*float64(time.Second))/4)
		}
	}
	return max(tick, 50*time.Millisecond)
}

// markOf identifies a state: the readings, and the reasons for missing ones.
func markOf(u *allocationUsage, a *allocation.Allocation) []byte {
	mark := fmt.Appendf(nil, "%v %s %s", u.Tacho.Publishing, u.Tacho.Reason, a.ClientStatus)
	for _, name := range slices.Sorted(maps.Keys(u.Tacho.Tasks)) {
		t := u.Tacho.Tasks[name]
		mark = fmt.Appendf(mark, " %s %v %s", name, t.Running, t.Reason)
		if reading := u.Tasks[name]; reading != nil {
			mark = fmt.Appendf(mark, " %d", reading.Timestamp)
		}
	}
	return mark
}

// process returns the name of the processes whose rows the request asks for; empty for all.
func (q *request) process() string { return q.values.Get("process") }

// onlyProcess returns a usage with the rows of the processes of one name, or all. Samples are shared: it changes
// copies.
func onlyProcess(u *figures.Figures, process string) *figures.Figures {
	if u.Sample == nil || process == "" {
		return u
	}
	some, sample := *u, *u.Sample
	sample.Processes = named(sample.Processes, process)
	some.Sample = &sample
	return &some
}

// named returns the rows of the processes with a name.
func named(rows []procstats.ProcessRow, process string) (some []procstats.ProcessRow) {
	for i := range rows {
		if rows[i].Command == process {
			some = append(some, rows[i])
		}
	}
	return some
}

// processNames are the names of the processes that were read; nil if nothing was read.
type processNames map[string]bool

// add notes the rows of one reading.
func (p *processNames) add(rows []procstats.ProcessRow) {
	if *p == nil {
		*p = processNames{}
	}
	for i := range rows {
		if rows[i].Command != "" {
			(*p)[rows[i].Command] = true
		}
	}
}

// mostNames is how many names of processes an error lists.
const mostNames = 50

// check rejects a name that no process has.
func (p processNames) check(process string) error {
	switch {
	case process == "" || p == nil || p[process]:
		return nil
	case len(p) == 0:
		return notFound(fmt.Sprintf("no process named %q: there are no rows of processes", process))
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		list = append(list, fmt.Sprintf("%q", name)) // a process chooses its name: it can contain anything
	}
	if more := len(list) - mostNames; more > 0 {
		list = append(list[:mostNames], fmt.Sprintf("%d more", more))
	}
	return notFound(fmt.Sprintf("no process named %q; known names: %s", process, strings.Join(list, ", ")))
}
