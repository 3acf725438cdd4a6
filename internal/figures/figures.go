// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package figures is the one picture of a task: what it uses, how fast, what it waits for and how it ended. A Tracker
// makes Figures from the readings of one task; a Moment has the numbers of one reading that rates are measured from.
// The API, the metrics, the page, the commands and the plugin's wire lay these values out and decide nothing.
package figures

import (
	"cmp"
	"slices"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Figures are what is known of a task at one moment. They are not changed.
type Figures struct {
	// Look asks for the processes of the task with every reading for a while; nil if nothing reads the task.
	Look func()
	// Running distinguishes the reading of a running task from the last one of an ended task.
	Running bool
	// Sample is the newest reading; nil if nothing was measured, and Reason says why.
	Sample *procstats.Sample
	// Before is the sample that the rates of Sample are measured from; nil after a gap.
	Before *procstats.Sample
	// Headlines are those of Sample.
	Headlines []procstats.HeadlineValue
	// Reason says why there is no reading, or no fresh one; empty if there is one.
	Reason string
	// Totals are those of the starts that have ended; Counted says that the last start is among them.
	Totals  Totals
	Counted bool
	// Stored reads the counters of Totals, which are not in memory once the allocation has ended; nil if they are.
	Stored func() map[procstats.ID]float64
	// Counters are the highest reading of each counter in the present or last start.
	Counters Counters
	// Interval is the time between readings.
	Interval time.Duration
	// Backlogged counts the readings that came more than an interval late.
	Backlogged int64
	// HistoryDropped counts the readings that are not in the history because the disk was too slow.
	HistoryDropped int64
}

// Fresh reports whether there is a reading that says what the task uses now.
func (f *Figures) Fresh() bool { return f.Running && f.Sample != nil && f.Reason == "" }

// Headline returns one of the headlines of a reading.
func Headline(list []procstats.HeadlineValue, id procstats.ID) (h procstats.HeadlineValue, ok bool) {
	if i := slices.IndexFunc(list, func(h procstats.HeadlineValue) bool { return h.ID == id }); i >= 0 {
		return list[i], true
	}
	return h, false
}

// HeadlineNumber returns the number of a headline; ok is false if there is none.
func HeadlineNumber(list []procstats.HeadlineValue, id procstats.ID) (value float64, ok bool) {
	h, _ := Headline(list, id)
	return h.Reading.Number()
}

// OOMKills returns the OOM kills in all starts of the task; ok is false if they were not counted. Kills in the present
// start are only known while there is a fresh reading.
func (f *Figures) OOMKills() (kills float64, ok bool) {
	if f.Totals.OOMKills != nil {
		kills, ok = float64(*f.Totals.OOMKills), true
	}
	switch {
	case f.Counted:
		return kills, ok
	case !f.Fresh():
		return 0, false
	}
	now, counted := f.Sample.Task.Number(procstats.CgroupMemoryEventsOOMKill)
	highest, _ := f.Counters.Number(procstats.CgroupMemoryEventsOOMKill)
	return kills + max(now, highest), ok || counted
}

// Counters are the highest reading of each counter in one start of a task, ordered by id. Every task has some sixty: a
// map takes more than twice the memory.
type Counters []Counter

// Counter is one of them, in the unit of its row.
type Counter struct {
	ID    procstats.ID
	Value float64
}

// Number returns the value of a counter; ok is false if it was never read.
func (cs Counters) Number(id procstats.ID) (value float64, ok bool) {
	i, found := cs.search(id)
	if !found {
		return 0, false
	}
	return cs[i].Value, true
}

// raise takes a reading into account if it is of a counter of the task.
func (cs *Counters) raise(r procstats.Reading) {
	value, ok := r.Number()
	m, known := procstats.Lookup(r.ID())
	if !ok || !known || m.Kind != procstats.Counter || m.Scope == procstats.ProcessScope {
		return
	}
	i, found := cs.search(m.ID)
	if !found {
		*cs = slices.Insert(*cs, i, Counter{m.ID, value})
		return
	}
	(*cs)[i].Value = max((*cs)[i].Value, value)
}

func (cs Counters) search(id procstats.ID) (int, bool) {
	return slices.BinarySearchFunc(cs, id, func(c Counter, id procstats.ID) int { return cmp.Compare(c.ID, id) })
}

// Totals is what the starts of a task that have ended used together, from the first one on.
type Totals struct {
	// Run is the last start that is in them.
	Run int
	// Counters are by measurement. The map is never changed.
	Counters map[procstats.ID]float64 `json:",omitempty"`
	// OOMKills is nil if no start has counted them.
	OOMKills *int64 `json:",omitempty"`
}

// add returns the totals with a start that has ended: of each counter the highest value that was read or that is in its
// final record, because either may have been published. A start is added once: after the agent was killed the same end
// is reported again.
func (t Totals) add(run int, final *record.Record, read Counters) Totals {
	if run <= t.Run {
		return t
	}
	used := slices.Clone(read)
	for _, m := range procstats.Table() {
		v, ok := final.Measurements[m.Name].(float64)
		if h := final.Headline[m.Name].Value; h != nil {
			v, ok = *h, true
		}
		if ok {
			used.raise(procstats.NumberReading(m.ID, v))
		}
	}
	sum := Totals{Run: run, Counters: make(map[procstats.ID]float64, len(used)), OOMKills: t.OOMKills}
	for _, c := range used {
		sum.Counters[c.ID] = c.Value
	}
	for id, v := range t.Counters {
		sum.Counters[id] += v
	}
	kills, counted := used.Number(procstats.CgroupMemoryEventsOOMKill)
	if recorded := final.Diagnosis.OOM.Kills; recorded != nil {
		kills, counted = max(kills, float64(*recorded)), true
	}
	if counted {
		total := int64(kills)
		if t.OOMKills != nil {
			total += *t.OOMKills
		}
		sum.OOMKills = &total
	}
	return sum
}
