// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package reader reads one task: its totals, its processes at a rhythm of their own, the packets and the ended
// processes that only a watcher sees, and what reading it costs. An executor reads its own task with it, and a driver
// all tasks of a host.
//
// A driver leaves its newest samples in the executor's directory, see [Handover].
package reader

import (
	"cmp"
	"errors"
	"hash/fnv"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// Options say how a task is read.
type Options struct {
	Target    source.Target
	Selection procstats.Selection
	// RowInterval is the time between two sets of process rows, and ID spreads them over that time. With 0 a sample
	// has rows only if they are asked for.
	RowInterval time.Duration
	ID          string
	NoRows      bool
	// Executor is the process that the task's executor is; Unsampled is why its interval is absent while the pacer
	// has none.
	Executor  int
	Unsampled string
	Pacer     *pace.Pacer
	Packets   *network.Source
	// Slow has measurements that another process reads; nil for none.
	Slow Slow
	// Quiet reads no more of a task that does not move than what tells that. It takes a kernel with PSI.
	Quiet bool
	// Watched reads a cgroup that others have made: it can be empty, and is over when it is removed.
	Watched bool
	// Counted is a sample of another reader, whose counts of what reading the task costs are continued; nil for none.
	Counted *procstats.Sample
	// Sampled is called with each sample of the task while it has a process, and with the newest one that has rows, under
	// the reader's lock; it may be nil.
	Sampled func(s, rows *procstats.Sample)
}

// Slow is a source of measurements that another process reads at its own pace.
type Slow interface {
	source.Source
	// Selection is what it reads.
	Selection() procstats.Selection
	// Ask asks for the next answer if that is due, and reports whether there is one that no sample has.
	Ask(now time.Duration) bool
}

// RefreshInterval is how often a task is read whole that does not move.
const RefreshInterval = 10 * time.Second

// Reader reads one task. Its methods may be called concurrently: collections are shared.
type Reader struct {
	// Options must not be changed.
	Options
	withoutRows procstats.Selection
	cache       *source.Cache

	mu           sync.Mutex // guards following: one collection at a time
	totals, rows *source.Collector
	cost         ownCost
	sets         rows
	// quiet is nil for a task that is always read whole; moved is whether it has moved at the last reading, and
	// refreshAt when it is read whole next if it does not move.
	quiet     *source.Quiet
	moved     bool
	refreshAt time.Duration
	carried   bool // the last sample has rows that were not read for it
	// spent is the CPU time that it took to read the task, but for looks that found it asleep, until TakeCost.
	spent time.Duration
	// last and before are the newest samples of the task while it had a process.
	last, before *procstats.Sample
	final        *procstats.Sample // once the reader is closed
}

// Open opens the files of a task. The caller holds the lock of what its sources share with those of other tasks.
func Open(o Options) *Reader {
	o.Target.Shared = cmp.Or(o.Target.Shared, &source.Shared{})
	r := &Reader{Options: o}
	r.Counted = nil // else it is in memory for as long as the task runs
	r.cost = ownCost{pid: o.Executor, selection: o.Selection, pacer: o.Pacer, unsampled: o.Unsampled}
	if o.Counted != nil {
		r.cost.include(o.Counted)
	}
	own, more := o.Selection, []source.Source{&r.cost, o.Packets}
	if o.Slow != nil {
		own, more = own.Minus(o.Slow.Selection()), append(more, o.Slow)
	}
	totals, rows := source.Split(o.Target, own)
	r.totals = source.Open(o.Target, totals, more...)
	r.withoutRows = totals
	if o.Slow != nil {
		r.withoutRows = totals.Union(o.Slow.Selection())
	}
	if o.NoRows {
		rows = procstats.Selection{}
	}
	r.rows = source.Open(o.Target, rows)
	r.sets.interval, r.sets.selection = o.RowInterval, rows
	if o.Quiet {
		r.quiet = r.totals.Watch()
	}
	r.cache = source.NewCache(r.collect, nil)
	return r
}

// Before reads what the task's counters start from, before any other reading. It is not shared: a reader who is
// served it from a cache would take gauges of no process for those of the task.
func (r *Reader) Before() *procstats.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := kernel.Now().Mono
	baseline := &procstats.Sample{}
	r.totals.CollectBefore(baseline)
	r.cost.add(kernel.Now().Mono - began)
	return baseline
}

// Continue continues what another reader has handed over; alive tells which processes of it are still there.
func (r *Reader) Continue(h *Handover, alive func(procstats.ProcessID) bool) {
	if h.Last == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cost.include(h.Last)
	r.Packets.Continue(h.Last)
	for _, c := range [...]*source.Collector{r.totals, r.rows} { // which of them reads the processes, Split decides
		c.ContinueFrom(cmp.Or(h.Rows, h.Last), alive)
	}
	if h.Rows != nil && (r.sets.newest == nil || r.sets.newest.Mono < h.Rows.Mono) {
		r.sets.newest = h.Rows
	}
}

// Get returns a sample that is at most maxAge old, as are its rows. Without rows it has the totals only.
func (r *Reader) Get(maxAge time.Duration, rows bool) *procstats.Sample {
	if !rows {
		return r.TotalsOf(r.cache.Get(maxAge))
	}
	if latest := r.cache.Latest(); latest != nil && kernel.Now().Mono-latest.Mono < maxAge && r.hasRows(latest, maxAge) {
		return latest
	}
	r.sets.wanted.Store(true)
	s := r.cache.Get(0)
	if !r.hasRows(s, maxAge) { // it was begun before, for a reader of totals
		s = r.cache.Get(0)
	}
	return s
}

// Tasks is how many processes and threads the task has, which costs nothing to know; ok is false if its cgroup does not
// count them, or if the totals need every process anyway.
func (r *Reader) Tasks() (tasks float64, ok bool) {
	dir := cmp.Or(r.Target.Cgroup.V1["pids"], r.Target.Cgroup.V2)
	if dir == "" || !r.Target.Cgroup.Encloses() || r.sets.selection.Empty() {
		return 0, false
	}
	n, ok := kernel.ReadNumber(filepath.Join(dir, "pids.current"))
	return float64(n), ok
}

// hasRows reports whether the rows of a sample, if it can have any, are at most maxAge older than it, or still true.
func (r *Reader) hasRows(s *procstats.Sample, maxAge time.Duration) bool {
	set, ok := s.RowsAt()
	if ok && s.Mono-set.Mono <= maxAge || !s.Checked.Zero() || r.sets.selection.Empty() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return s == r.sets.newest || s == r.final
}

// TotalsOf returns of a sample what a reader of totals always gets.
func (r *Reader) TotalsOf(s *procstats.Sample) *procstats.Sample {
	if _, read := s.RowsAt(); !read || r.withoutRows == r.Selection {
		return s
	}
	return source.Only(s, r.withoutRows)
}

// Next returns a sample that is at most maxAge old, with rows as their rhythm has them; nil if nothing is left of the
// task.
func (r *Reader) Next(maxAge time.Duration) *procstats.Sample {
	s := r.cache.Get(maxAge)
	if s.Checked.Zero() && r.over(s) { // one that was only checked has the readings of one that was not gone
		return nil
	}
	return s
}

// New returns a sample that was begun after the call: a collection for another reader may be in progress that has
// read some of the totals before.
func (r *Reader) New() *procstats.Sample { return r.cache.GetNew() }

// Whole is New with rows.
func (r *Reader) Whole() *procstats.Sample {
	r.sets.wanted.Store(true)
	s := r.New()
	if !r.hasRows(s, 0) {
		r.sets.wanted.Store(true)
		s = r.cache.Get(0)
	}
	return s
}

// Final is the last sample: Whole of a task of which no process is left, but its directory.
func (r *Reader) Final() *procstats.Sample {
	r.mu.Lock()
	r.totals.Ending()
	r.mu.Unlock()
	return r.Whole()
}

// Look has the processes read for every sample for a while.
func (r *Reader) Look() { r.sets.look(kernel.Now().Mono) }

// Rows returns the newest sample with rows of its own, without taking one; nil if there is none.
func (r *Reader) Rows() *procstats.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sets.newest
}

// WithRows returns a sample with the newest rows, and what was read together with them, if it has none of its own.
func (r *Reader) WithRows(s *procstats.Sample) *procstats.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, read := s.RowsAt(); read || r.sets.newest == nil {
		return s
	}
	with := *s
	with.Task = slices.Clone(s.Task)
	r.sets.carry(&with)
	return &with
}

// Recent returns the newest two samples of the task while it had a process; nil if they were not taken.
func (r *Reader) Recent() (last, before *procstats.Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.before
}

// Gone reports whether a sample was taken when the task was ending: its cgroup was empty, or removed.
func Gone(s *procstats.Sample) bool {
	cpu, found := s.Task.Get(procstats.CgroupCPUUsage)
	return !record.Inhabited(s) || found && source.IsRemoved(cpu)
}

// over reports whether a sample was taken when the task was ending.
func (r *Reader) over(s *procstats.Sample) bool {
	if r.Watched {
		return slices.ContainsFunc(s.Task, source.IsRemoved)
	}
	return Gone(s)
}

// collect reads the task.
func (r *Reader) collect(latest *procstats.Sample) *procstats.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.final != nil {
		return r.final
	}
	r.Target.Shared.Lock()
	defer r.Target.Shared.Unlock()
	began := kernel.Now().Mono
	packets, woke := r.Packets.Moved(), false
	if !packets && r.isQuiet(began) {
		if again := r.quiet.Again(r.last); again != nil {
			r.before, r.last = r.last, again
			return again
		}
		woke = true
	}
	into := r.readCounted(began, latest, packets)
	r.cost.add(kernel.Now().Mono - began)
	if r.over(into) {
		return into
	}
	strays, _ := into.Task.Number(procstats.TreeOutside) // where the cgroup says nothing of what moves
	r.moved = r.quiet != nil && (woke || r.quiet.Moved() || strays > 0)
	r.refreshAt = began + source.UntilTick(began, RefreshInterval, Phase(r.ID, RefreshInterval))
	if !r.carried && !r.NoRows {
		r.sets.add(into, Phase(r.ID, r.sets.interval))
	}
	r.remember(into)
	if r.Sampled != nil {
		r.Sampled(into, r.sets.newest)
	}
	return into
}

// Repeat calls Sampled again with the last sample, if there is one.
func (r *Reader) Repeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Target.Shared.Lock()
	defer r.Target.Shared.Unlock()
	if r.last != nil {
		r.Sampled(r.last, r.sets.newest)
	}
}

// remember makes a sample the last one. The one before is for rates of totals: its rows would take memory in vain.
func (r *Reader) remember(s *procstats.Sample) {
	r.before, r.last = r.last, s
	if r.sets.interval == 0 && r.before != nil && r.before.Processes != nil {
		r.before = bare(r.before)
	}
}

// isQuiet reports whether the last sample is all there is to say if the task has not moved since: it had not moved
// then, its rows are of the same time, and none are asked for.
func (r *Reader) isQuiet(now time.Duration) bool {
	return r.quiet != nil && !r.moved && r.last != nil && !r.carried && now < r.refreshAt && !r.sets.looked(now) &&
		(r.Slow == nil || !r.Slow.Ask(now))
}

// readCounted reads the task, and counts the CPU time of that.
func (r *Reader) readCounted(began time.Duration, latest *procstats.Sample, packets bool) *procstats.Sample {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := ThreadCPU()
	into := r.read(began, latest, packets)
	r.spent += ThreadCPU() - before
	return into
}

// TakeCost returns the CPU time that reading the task has taken since the last call.
func (r *Reader) TakeCost() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	spent := r.spent
	r.spent = 0
	return spent
}

// read reads the totals, and the processes if they are due, if the task has come to rest, or if its end would not be
// seen. packets says that there were some since the last sample: the kernel receives them for a task that sleeps.
func (r *Reader) read(now time.Duration, latest *procstats.Sample, packets bool) *procstats.Sample {
	atRest := r.quiet != nil && !r.moved && !packets
	due := r.sets.due(now)
	r.carried = false
	if !due && !atRest && (r.sets.interval == 0 || seesEnd(latest)) {
		into := source.Sibling(bare(latest))
		source.CollectAll(into, r.totals)
		n, _ := into.Task.Number(procstats.CgroupPidsCurrent)
		if r.carried = r.sets.interval == 0 || n > 0; r.carried { // else it is at its end
			if r.sets.interval > 0 { // else it has no rows
				r.sets.carry(into)
			}
			return into
		}
	}
	if r.sets.interval == 0 {
		latest = cmp.Or(r.sets.newest, latest) // which has memory for rows
	}
	into := source.Sibling(latest)
	source.CollectAll(into, r.rows, r.totals)
	return into
}

// bare is a sample without its rows; nil of none.
func bare(s *procstats.Sample) *procstats.Sample {
	if s == nil {
		return nil
	}
	totals := *s
	totals.Processes, totals.Omitted = nil, 0
	return &totals
}

// seesEnd reports whether the totals say when no process is left.
func seesEnd(s *procstats.Sample) bool {
	_, ok := s.Task.Number(procstats.CgroupPidsCurrent)
	return ok
}

// Phase spreads what is done at an interval over that time, so that it is not done for all tasks at one tick.
func Phase(id string, interval time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // which never fails
	return time.Duration(float64(interval) * float64(h.Sum32()) / (1 << 32))
}

// Outside returns the first processes of the task that were seen outside its cgroup. It is for Sampled.
func (r *Reader) Outside() []procstats.ProcessID {
	return append(r.rows.Outside(), r.totals.Outside()...)
}

// LostChildren reports that processes of the task were not waited for, so that without a cgroup their time is lost.
func (r *Reader) LostChildren() bool {
	return !r.Target.Cgroup.Encloses() && (r.totals.LostChildren() || r.rows.LostChildren())
}

// CPUThrottler is that of the totals, see [source.Collector].
func (r *Reader) CPUThrottler() string { return r.totals.CPUThrottler() }

// Earlier is what a counter of a cgroup that had tasks before said when it was opened, in the unit of its row.
func (r *Reader) Earlier(id procstats.ID) (value float64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.totals.Earlier(id)
}

// CountedFrom says what counters began at that do not begin with the task, in the kernel's units: those of a cgroup
// that had tasks before, and of the cgroups above it.
func (r *Reader) CountedFrom() map[procstats.ID]float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.totals.Before()
}

// Collections is how often the task was read, by this reader and those that it continues.
func (r *Reader) Collections() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.cost.collections)
}

// Describe says what each selected source can do here.
func (r *Reader) Describe() []procstats.SourceDescription {
	return append(r.totals.Describe(), r.rows.Describe()...)
}

// AddPackets adds the packets of the task to a sample, and returns what their source can do here.
func (r *Reader) AddPackets(into *procstats.Sample) procstats.SourceDescription {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.final == nil {
		r.Packets.Collect(into)
	}
	return r.Packets.Describe()
}

// Close closes the files of the task. From then on every sample is the final one; if that is nil, the last.
func (r *Reader) Close(final *procstats.Sample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.final = cmp.Or(final, r.last, &procstats.Sample{Stamp: kernel.Now()})
	r.Target.Shared.Lock()
	defer r.Target.Shared.Unlock()
	return errors.Join(r.totals.Close(), r.rows.Close())
}
