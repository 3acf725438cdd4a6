// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package figures is the one picture of a task: what it uses, how fast, what it waits for and how it ended. A Tracker
// makes Figures from the readings of one task; a Moment has the numbers of one reading that rates are measured from.
// The API, the metrics, the page, the commands and the plugin's wire lay these values out and decide nothing.
package figures

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/series"
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

// Quantity is one of the numbers of a task that surfaces draw, list and sort by.
type Quantity int

// Quantities. Those with a headline are taken from where the headline is.
const (
	CPU           Quantity = iota // CPU seconds
	Cores                         // of the agent's own window
	Memory                        // that cannot be reclaimed
	MemoryCharged                 // with page cache
	MemoryPeak
	Read    // bytes from storage
	Written // bytes that the task writes, see procstats.Writing
	Received
	Sent
	WaitCPU // seconds in which some process waited
	WaitMemory
	WaitIO
	Throttled
	ThrottledAbove // by quotas of cgroups above its own
	OOMKills
	MemoryLimit
	Quota
	Disk
	PSS
	Processes
	Outside // processes outside the cgroup that pressure is read of
	late    // CPU seconds that were used before they were seen
	quantities

	headlined = Sent + 1 // the quantities before have a headline
)

// headlineOf has the headline of each quantity with one. Written has that of procstats.Writing.
//
//nolint:gochecknoglobals // a constant table
var headlineOf = [headlined]procstats.ID{
	CPU: procstats.HeadlineCPU, Cores: procstats.HeadlineCores, Memory: procstats.HeadlineMemory,
	MemoryCharged: procstats.HeadlineMemoryCharged, MemoryPeak: procstats.HeadlineMemoryPeak,
	Read: procstats.HeadlineIORead, Written: procstats.HeadlineIOWrite,
	Received: procstats.HeadlineNetworkReceived, Sent: procstats.HeadlineNetworkSent,
}

// measurementOf has the measurement of each other quantity.
//
//nolint:gochecknoglobals // a constant table
var measurementOf = [quantities]procstats.ID{
	WaitCPU: procstats.PSICPUSome, WaitMemory: procstats.PSIMemorySome, WaitIO: procstats.PSIIOSome,
	Throttled: procstats.CgroupCPUThrottled, ThrottledAbove: procstats.CgroupCPUAncestorThrottled,
	OOMKills: procstats.CgroupMemoryEventsOOMKill, MemoryLimit: procstats.CgroupMemoryMax,
	Quota: procstats.CgroupCPUQuota, Disk: procstats.DiskUsage, PSS: procstats.SmapsPSS,
	Processes: procstats.TreeProcesses,
	Outside:   procstats.TreeLeftPressure, late: procstats.TreeCPULate,
}

// Moment has the numbers of one reading of a task. What was not measured is NaN.
type Moment struct {
	procstats.Stamp
	// Run counts the starts of the task: counters begin anew with each.
	Run int
	// Gap says why there are no numbers, of a moment that stands for a time without readings.
	Gap    series.Gap
	values [quantities]float64
	// sources are what the headlines were taken from: the counters of two sources have no difference.
	sources [headlined]string
}

// Lookup returns the number of a measurement; ok is false if it was not read.
type Lookup = func(procstats.ID) (value float64, ok bool)

// NewGap returns a moment without numbers.
func NewGap(at procstats.Stamp, run int, why series.Gap) Moment {
	m := Moment{Stamp: at, Run: run, Gap: why}
	for q := range m.values {
		m.values[q] = math.NaN()
	}
	return m
}

// MomentOf returns the numbers of a reading from its measurements and headlines.
func MomentOf(at procstats.Stamp, run int, number Lookup, headlines []procstats.HeadlineValue) Moment {
	m := NewGap(at, run, series.NoGap)
	for q := headlined; q < quantities; q++ {
		if v, ok := number(measurementOf[q]); ok {
			m.values[q] = v
		}
	}
	if v, ok := number(procstats.PortableProcesses); ok {
		m.values[Processes] = v
	}
	for q, id := range headlineOf {
		if id == procstats.HeadlineIOWrite {
			id = procstats.Writing(headlines)
		}
		h, _ := Headline(headlines, id)
		if v, ok := h.Reading.Number(); ok {
			m.values[q], m.sources[q] = v, h.Source
		}
	}
	return m
}

// MomentOfValues returns the numbers of a reading whose headlines have lost their sources, as those in a history have.
// They are made again, except the peak, which depends on all readings.
func MomentOfValues(at procstats.Stamp, run int, number Lookup) Moment {
	w := scratch.Get().(*scrap)
	defer w.free()
	s := &w.sample
	s.Stamp = at
	for _, id := range momentNeeds() {
		if v, ok := number(id); ok {
			s.SetNumber(id, v)
		}
	}
	w.list = procstats.HeadlinesInto(w.list, s, procstats.History{})
	m := MomentOf(at, run, number, w.list)
	if v, ok := number(procstats.HeadlineMemoryPeak); ok {
		m.values[MemoryPeak] = v
	}
	return m
}

// momentNeeds are the measurements that the headlines of a moment are taken from.
//
//nolint:gochecknoglobals // a constant list
var momentNeeds = sync.OnceValue(func() []procstats.ID {
	return procstats.Select(append(headlineOf[:], procstats.HeadlineIOHanded)...).IDs()
})

// Value returns the number of a quantity, or NaN.
func (m *Moment) Value(q Quantity) float64 { return m.values[q] }

// Raise makes a quantity at least a number.
func (m *Moment) Raise(q Quantity, least float64) {
	if v := m.values[q]; least > v || math.IsNaN(v) {
		m.values[q] = least
	}
}

// Follows reports whether counters went on from an earlier moment to this one.
func (m *Moment) Follows(earlier *Moment) bool {
	return earlier.Gap == series.NoGap && m.Gap == series.NoGap && earlier.Run == m.Run && m.Mono > earlier.Mono
}

// counter is a quantity that only grows.
func (m *Moment) counter(q Quantity) procstats.CounterReading {
	c := procstats.CounterReading{Value: m.values[q], At: m.Mono, Run: m.Run}
	if q < headlined {
		c.Source = m.sources[q]
	}
	return c
}

// Rate returns the growth of a quantity per second since an earlier moment, which may be nil, or NaN. CPU time that was
// used before it was seen, by processes that were found late, is left out: a cgroup counts it when it is used.
func (m *Moment) Rate(before *Moment, q Quantity) float64 {
	if before == nil {
		return math.NaN()
	}
	rate, reason := m.counter(q).RateSince(before.counter(q))
	if reason != "" {
		return math.NaN()
	}
	if q == CPU && m.sources[CPU] == procstats.TreeCPU.String() {
		if late := m.Rate(before, late); !math.IsNaN(late) {
			return max(0, rate-late)
		}
	}
	return rate
}

// Kills returns the OOM kills since an earlier moment.
func (m *Moment) Kills(before *Moment) int64 {
	kills, _ := m.counter(OOMKills).GrowthSince(before.counter(OOMKills))
	return int64(kills)
}

// Waits returns what the task waited for since an earlier moment, in each second.
func (m *Moment) Waits(before *Moment) record.Waits {
	rate := func(q Quantity) *float64 { return Known(m.Rate(before, q)) }
	return record.Waits{
		Wall: time.Second, CPU: rate(CPU), Throttled: rate(Throttled), AncestorThrottled: rate(ThrottledAbove),
		CPUSome: rate(WaitCPU), MemorySome: rate(WaitMemory), IOSome: rate(WaitIO), Left: Known(m.values[Outside]),
	}
}

// Known returns a number, or nil if it is NaN.
func Known(value float64) *float64 {
	if math.IsNaN(value) {
		return nil
	}
	return &value
}
