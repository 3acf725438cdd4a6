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
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
)

// usage returns what the tasks of an allocation use, or the one that the request names.
func (s *Server) usage(r *http.Request, now *snapshot.Agent, a *allocation.Allocation) (*allocationUsage, error) {
	task := r.URL.Query().Get("task")
	if err := checkTask(a, task); err != nil {
		return nil, err
	}
	process := processOf(r)
	usages := make(map[string]*figures.Figures, len(a.Tasks))
	for name, t := range a.Tasks {
		if task != "" && task != name {
			continue
		}
		usages[name] = lookAt(now, t, r)
		if process != "" {
			usages[name] = onlyProcess(usages[name], process)
		}
	}
	return newAllocationUsage(usages, now, s.now()), nil
}

// lookAt returns what a task uses, and has its processes read more often for whoever asks again.
func lookAt(now *snapshot.Agent, t *allocation.Task, r *http.Request) *figures.Figures {
	u := now.UsageFor(t, Trusted(r.Context()))
	if u.Look != nil {
		u.Look()
	}
	return u
}

// stats is GET /v1/client/allocation/ID/stats. With ?at= it is the reading nearest to a time, with ?process= it has no
// rows but those of the processes with that name.
func (s *Server) stats(r *http.Request, now *snapshot.Agent, a *allocation.Allocation) (any, error) {
	if r.URL.Query().Has("at") {
		return s.history(r, now, a)
	}
	var known processNames
	for name, t := range a.Tasks {
		u := now.Usage(t)
		if task := r.URL.Query().Get("task"); u.Sample != nil && (task == "" || task == name) {
			known.add(u.Sample.Processes)
		}
	}
	if err := known.check(processOf(r)); err != nil {
		return nil, err
	}
	return s.usage(r, now, a)
}

// allStats is GET /v1/client/allocations/stats: what stats answers for each allocation that has not ended, by its id.
// Whoever looks at all of them need not ask for each.
func (s *Server) allStats(r *http.Request, now *snapshot.Agent) (any, error) {
	all := map[string]*allocationUsage{}
	for _, a := range now.Allocations {
		if a.ClientStatus.Ended() || !inNamespace(r, a.Namespace) {
			continue
		}
		usages := make(map[string]*figures.Figures, len(a.Tasks))
		for name, t := range a.Tasks {
			usages[name] = lookAt(now, t, r)
		}
		all[a.ID] = newAllocationUsage(usages, now, s.now())
	}
	return all, nil
}

// statsStream is GET /v1/client/allocation/ID/stats/stream: server-sent events (HTML standard, 9.2). Each reading is
// an event "stats" with the same JSON as a single request, and the end of the allocation an event "end".
func (s *Server) statsStream(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	a, err := allocationOf(r, s.agent.Snapshot())
	if err == nil {
		err = checkTask(a, r.URL.Query().Get("task"))
	}
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	out := s.newStreamWriter(w, r)
	var last []byte
	silent := time.Now()
	for {
		now := s.agent.Snapshot(a.ID)
		a, err := now.Allocation(a.ID)
		if err != nil {
			_ = out.Send([]byte("event: end\ndata: {\"reason\":\"the allocation was removed\"}\n\n"))
			return nil
		}
		u, err := s.usage(r, now, a)
		if err != nil {
			return nil
		}
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
		if isOver(a, r.URL.Query().Get("task")) {
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

// isOver reports whether nothing of an allocation is read any more, or of the one task of it that is named.
func isOver(a *allocation.Allocation, task string) bool {
	t := a.Tasks[task]
	return a.ClientStatus.Ended() || t != nil && t.State.Phase == hook.PhaseDead
}

// tick is how often to look for a new reading: four times in the shortest interval.
func (s *Server) tick(u *allocationUsage) time.Duration {
	tick := time.Second
	for _, t := range u.Tacho.Tasks {
		if t.IntervalSeconds > 0 {
			tick = min(tick, time.Duration(t.IntervalSeconds*float64(time.Second))/4)
		}
	}
	return max(tick, 50*time.Millisecond)
}

// markOf tells one state from the next: which readings there are, and why there are no others.
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
