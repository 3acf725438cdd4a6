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
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/plugin/wire"
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
	var read [][]procstats.ProcessRow
	for _, name := range tasks {
		if u := q.now.Usage(a.Tasks[name]); u.Sample != nil {
			read = append(read, u.Sample.Processes)
		}
	}
	if err := q.checkProcess(read); err != nil {
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
func (s *Server) statsStream(
	ctx context.Context, w http.ResponseWriter, q *request, a *allocation.Allocation,
) error {
	tasks, err := q.tasksOf(a)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
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
		mark, wait := markOf(u, a), tick(u)
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
func tick(u *allocationUsage) time.Duration {
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
	sample.Processes = slices.DeleteFunc(slices.Clone(sample.Processes), func(row procstats.ProcessRow) bool {
		return row.Command != process
	})
	some.Sample = &sample
	return &some
}

// mostNames is how many names of processes an error lists.
const mostNames = 50

// checkProcess rejects the name of a process that no row of some readings has.
func (q *request) checkProcess(readings [][]procstats.ProcessRow) error {
	process, names := q.process(), map[string]bool{}
	for _, rows := range readings {
		for i := range rows {
			names[rows[i].Command] = true
		}
	}
	delete(names, "")
	switch {
	case process == "" || len(readings) == 0 || names[process]:
		return nil
	case len(names) == 0:
		return notFound(fmt.Sprintf("no process named %q: there are no rows of processes", process))
	}
	list := slices.Sorted(maps.Keys(names))
	for i, name := range list {
		list[i] = strconv.Quote(name) // a process chooses its name: it can contain anything
	}
	if more := len(list) - mostNames; more > 0 {
		list = append(list[:mostNames], fmt.Sprintf("%d more", more))
	}
	return notFound(fmt.Sprintf("no process named %q; known names: %s", process, strings.Join(list, ", ")))
}

// allocationUsage is the response of Nomad's client/allocation/ID/stats, with ours in Tacho.
type allocationUsage struct {
	ResourceUsage resourceUsage
	Tasks         map[string]*taskUsage
	Timestamp     int64
	Tacho         apijson.Usage[json.RawMessage]
}

type taskUsage struct {
	ResourceUsage resourceUsage
	Timestamp     int64
	Pids          map[string]resourceUsage
}

type resourceUsage struct {
	MemoryStats *memoryStats
	CpuStats    *cpuStats //nolint:revive // Nomad's key
	DeviceStats []struct{}
}

// memoryStats are bytes. Only the fields in Measured were measured, and MappedFile if it is not 0: Nomad's command
// line prints a column for every word in Measured, and a number only for those it knows.
type memoryStats struct {
	RSS, Cache, Swap, MappedFile, Usage, MaxUsage, KernelUsage, KernelMaxUsage uint64
	Measured                                                                   []string
}

// cpuStats are percentages of one core, MHz, nanoseconds. Only the fields in Measured were measured, and TotalTicks
// if it is not 0, for the same reason.
type cpuStats struct {
	SystemMode, UserMode, TotalTicks float64
	ThrottledPeriods, ThrottledTime  uint64
	Percent                          float64
	Measured                         []string
}

// reading is what one task used; its sample is the text of procstats.
type reading = apijson.Reading[json.RawMessage]

// newAllocationUsage returns what tasks use. The sum is over the running ones.
func newAllocationUsage(usages map[string]*figures.Figures, now *snapshot.Agent, at time.Time) *allocationUsage {
	shown := &allocationUsage{Tasks: map[string]*taskUsage{}, Tacho: apijson.Usage[json.RawMessage]{
		Publishing: now.NotPublishing == "", Reason: now.NotPublishing, Tasks: map[string]*reading{},
	}}
	coreMHz := now.Node.Resources.CoreMHz
	var sum wire.Usage
	for name, u := range usages {
		shown.Tacho.Tasks[name] = newReading(u, at)
		if !u.Fresh() {
			continue // an old reading is not what a task uses; it is in Tacho, with its age
		}
		used := wire.TaskUsage(u.Sample, u.Before, coreMHz)
		task := &taskUsage{
			ResourceUsage: newResourceUsage(used), Timestamp: u.Sample.Wall.UnixNano(),
			Pids: make(map[string]resourceUsage, len(u.Sample.Processes)),
		}
		for pid, p := range wire.ProcessUsage(u.Sample, u.Before, coreMHz) {
			task.Pids[pid] = newResourceUsage(p)
		}
		shown.Tasks[name], shown.Timestamp = task, max(shown.Timestamp, task.Timestamp)
		if sum == nil {
			sum = used
		} else {
			sum.Add(used)
		}
	}
	shown.ResourceUsage = newResourceUsage(sum)
	return shown
}

// newResourceUsage returns a usage as Nomad's JSON. Fields that were not measured are 0, and not in Measured.
func newResourceUsage(u wire.Usage) resourceUsage {
	measured := func(words ...string) []string {
		return slices.DeleteFunc(words, func(word string) bool {
			_, ok := u[strings.ToLower(strings.ReplaceAll(word, " ", "_"))]
			return !ok
		})
	}
	return resourceUsage{
		MemoryStats: &memoryStats{
			RSS: uint64(u["rss"]), Cache: uint64(u["cache"]), Swap: uint64(u["swap"]), MappedFile: uint64(u["mapped_file"]),
			Usage: uint64(u["usage"]), MaxUsage: uint64(u["max_usage"]), KernelUsage: uint64(u["kernel_usage"]),
			Measured: measured("RSS", "Cache", "Max Usage", "Kernel Usage", "Usage", "Swap"),
		},
		CpuStats: &cpuStats{
			SystemMode: u["system_mode"], UserMode: u["user_mode"], TotalTicks: u["total_ticks"], Percent: u["percent"],
			ThrottledPeriods: uint64(u["throttled_periods"]), ThrottledTime: uint64(u["throttled_time"]),
			Measured: measured("System Mode", "User Mode", "Throttled Periods", "Throttled Time", "Percent"),
		},
		DeviceStats: []struct{}{},
	}
}

func newReading(u *figures.Figures, at time.Time) *reading {
	shown := &reading{
		Running: u.Running, Reason: u.Reason, IntervalSeconds: u.Interval.Seconds(), Backlogged: u.Backlogged,
		HistoryDropped: u.HistoryDropped, Sample: json.RawMessage("null"),
	}
	if u.Sample == nil {
		return shown
	}
	shown.AgeSeconds = new(max(0, at.Sub(u.Sample.Wall).Seconds()))
	shown.Sample = procstats.AppendJSON(nil, u.Sample, u.Headlines)
	shown.Sources, shown.Guarantees = map[string]apijson.SourceReading{}, procstats.Guarantees(u.Sample, u.Headlines)
	for source, read := range u.Sample.Sources.All() {
		age := max(0, at.Sub(read.Wall).Seconds())
		shown.Sources[source.String()] = apijson.SourceReading{ReadAt: read.Wall, AgeSeconds: age}
	}
	return shown
}
