// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// ErrUnreadable says that a task must be read by its executor: it has no cgroup to itself, this process may not read it, or the
// executor is of an older build.
var ErrUnreadable = errors.New("the task must be read by its executor")

// Executor is what is asked of a task's executor.
type Executor interface {
	// Target returns what only the executor knows, or no more of it than what it has reaped.
	Target(ctx context.Context, reapedOnly bool) (*proto.TargetResponse, error)
	Sample(ctx context.Context, maxAge time.Duration, rows bool) (*procstats.Sample, error)
	// Lost is closed when its process is gone.
	Lost() <-chan struct{}
}

// Task is a running task.
type Task struct {
	// ID is the driver's.
	ID       string
	Executor Executor
	// Process is the executor's, and Folder its directory.
	Process procstats.ProcessID
	Folder  string
	Cgroup  procstats.Cgroup
	Started time.Time
	// Rows says that samples have process rows, which are read once in RowInterval, and for every sample while somebody looks.
	Rows        bool
	RowInterval time.Duration
	// SamplingBudget is the share of one core that reading it may take; 0 for the default. Stretched is told when an interval
	// becomes at least twice as long as ever before, from what to what and why; it may be nil.
	SamplingBudget float64
	Stretched      func(text string)
	// Done is closed when the task has ended.
	Done <-chan struct{}
}

const (
	// baselineAge is how old a sample may be for the first rate to be measured from it. An older one would make the first
	// answer an average over a time that nobody asked about.
	baselineAge = 10 * time.Second
	// finalLimit bounds the wait for an executor's last answer.
	finalLimit = time.Second
)

// reading is a task that is read here, for all its streams.
type reading struct {
	task Task
	log  hclog.Logger
	now  func() procstats.Stamp
	// streams are those of the task, and users they and whoever asks something; the loop's mu guards both.
	streams, users int
	pacer          *pace.Pacer
	// files is how many descriptors the task takes at most; the loop's mu guards it once the reading is opened.
	files      int
	shared     *source.Shared
	exitReader *exitReader
	tryNetwork func() error
	takeEarly  func(id string) *early

	// ctx ends when nobody uses the reading any more, or the loop ends; gone is closed when the reading is.
	ctx    context.Context
	cancel context.CancelFunc
	gone   chan struct{}

	opening sync.Mutex // held while the reading is opened, and guards failed
	failed  error      // why it cannot be opened, not even by others
	opened  atomic.Bool
	cache   *source.Cache

	mu           sync.Mutex // guards following: one collection at a time
	closed       bool
	totals, rows *source.Collector
	self         *selfSource
	reaped       reaped
	listings     int      // of the executor's children
	listed       [2][]int // the last of those that it has adopted, and of all
	handover     *wire.HandoverWriter
	exits        *exitWatch
	early        *early // until its packets are the network's
	network      *network.Source
	slow         *slowSource
	// quiet is nil for a task that is always read whole; moved is whether it has moved at the last reading, and refreshAt when
	// it is read whole next if it does not move.
	quiet     *source.Quiet
	moved     bool
	refreshAt time.Duration
	handAt    time.Duration // when the commands are handed over next
	sets      sets
	carried   bool // the last sample has rows that were not read for it
	// cost is the CPU time that it took to read the task, but for looks that found it asleep, until somebody takes it.
	cost time.Duration
	// baseline is from before the first sample, until a stream has it; last and before are the newest samples.
	baseline, last, before *procstats.Sample
}

// open opens the task's files, once.
func (r *reading) open(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	r.opening.Lock()
	defer r.opening.Unlock()
	if r.opened.Load() || r.failed != nil {
		return r.failed
	}
	if !r.task.Cgroup.Encloses() {
		return fmt.Errorf("task without a cgroup of its own: %w", ErrUnreadable)
	}
	if r.exits == nil { // first: what ends before is not counted
		r.watch()
	}
	target, asked, err := r.ask(ctx)
	if err != nil {
		return err // another user may have more time
	}
	r.openSources(target, selectionOf(asked), asked)
	r.resume(wire.ToSample(asked.GetSample()))
	r.quiet = r.totals.Watch()
	r.refreshAt = 0
	r.cache = source.NewCacheOf(r.collect, r.now)
	if r.failed = r.compare(r.cache.Get(0), wire.ToSample(asked.GetSample())); r.failed != nil {
		return r.failed
	}
	if r.handover, err = wire.OpenHandover(r.task.Folder); err != nil {
		r.log.Warn("samples will be missing in the final record", "task", r.task.ID, "error", err)
	}
	r.handFirst()
	r.opened.Store(true)
	return nil
}

// watch goes on with what is counted since before the start of the task, or begins to watch it.
func (r *reading) watch() {
	if r.early = r.takeEarly(r.task.ID); r.early != nil {
		r.exits = r.early.exits
		return
	}
	r.exits = r.exitReader.watch(r.task.Cgroup, r.task.Folder)
}

func (r *reading) openSources(target source.Target, selection procstats.Selection, asked *proto.TargetResponse) {
	r.shared.Lock()
	defer r.shared.Unlock()
	target.Shared = r.shared
	r.slow = newSlowSource(r.ctx, r.task.Executor, selection, wire.ToSample(asked.GetSample()))
	totals, rows := source.Split(target, selection.Minus(r.slow.selection))
	r.self = newSelfSource(r.task.Process.PID, selection, wire.ToSample(asked.GetSample()), r.pacer)
	r.network = r.countPackets(selection, wire.ToSample(asked.GetSample()))
	r.totals = source.Open(target, totals, r.self, r.network, r.slow)
	if !r.task.Rows {
		rows = procstats.Selection{}
	}
	r.rows = source.Open(target, rows)
	if r.files == reopenedFiles {
		r.totals.Reopen()
		r.rows.Reopen()
	}
	r.sets.interval, r.sets.rows = max(r.task.RowInterval, time.Nanosecond), rows
	for _, file := range target.Opened {
		_ = file.Close() // the sources have descriptors of their own
	}
}

// resume continues where an earlier reader of the task has stopped.
func (r *reading) resume(asked *procstats.Sample) {
	r.baseline = asked
	h, err := wire.ReadHandover(r.task.Folder)
	if err != nil {
		return // there was none
	}
	r.self.count(h.Last)
	r.network.Continue(h.Last)
	if h.Rows != nil {
		r.sets.newest = h.Rows
	}
	for _, c := range [...]*source.Collector{r.totals, r.rows} { // which of them reads the processes, Split decides
		c.ContinueFrom(cmp.Or(h.Rows, h.Last), unreaped)
	}
	if age := r.now().Mono - h.Last.Mono; age >= 0 && age < baselineAge {
		r.baseline = h.Last
	}
}

// measureFrom returns a sample from which a new stream's first rates are measured.
func (r *reading) measureFrom() *procstats.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	baseline := cmp.Or(r.baseline, r.before, r.last)
	r.baseline = nil
	return baseline
}

// unreaped reports whether a process is there, be it as a zombie: that is a row with what it used until it is reaped, and counts
// as exited from then on. kernel.Alive would count it twice.
func unreaped(id procstats.ProcessID) bool {
	identity, err := kernel.Identify(kernel.HostFS(), id.PID)
	return err == nil && identity.ProcessID == id
}

// compare holds a first sample against the executor's: what that can read and this process cannot is the executor's to read.
func (r *reading) compare(own, executors *procstats.Sample) error {
	for _, theirs := range executors.Task {
		m, known := procstats.Lookup(theirs.ID())
		if !known || !theirs.Present() || m.Source != procstats.SourceCgroup && m.Source != procstats.SourcePSI {
			continue
		}
		if ours, _ := own.Task.Get(theirs.ID()); !ours.Present() {
			return fmt.Errorf("%s: %s: %w", m.Name, ours.Reason(), ErrUnreadable)
		}
	}
	if members, _ := own.Task.Get(procstats.TreeProcesses); !members.Present() && members.Reason() != "" {
		return fmt.Errorf("%s: %s: %w", procstats.TreeProcesses, members.Reason(), ErrUnreadable)
	}
	return nil
}

// get returns a sample that is at most maxAge old; nil if nothing is left of the task.
func (r *reading) get(maxAge time.Duration) *procstats.Sample {
	s := r.cache.Get(maxAge)
	if s.Checked.Zero() && gone(s) { // one that was only checked has the readings of one that was not gone
		return nil
	}
	return s
}

// look has the processes read for every sample for a while.
func (r *reading) look() { r.sets.look(r.now().Mono) }

// gone reports whether a sample was taken when the task was ending: its cgroup was empty, or removed.
func gone(s *procstats.Sample) bool {
	cpu, found := s.Task.Get(procstats.CgroupCPUUsage)
	return !record.Inhabited(s) || found && source.IsRemoved(cpu)
}

// collect reads the task.
func (r *reading) collect(latest *procstats.Sample) *procstats.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return cmp.Or(r.last, latest, &procstats.Sample{Stamp: r.now()})
	}
	r.shared.Lock()
	defer r.shared.Unlock()
	began := r.now().Mono
	packets, woke := r.network.Moved(), false
	if !packets && r.isQuiet(began) {
		if again := r.quiet.Again(r.last); again != nil {
			r.before, r.last = r.last, again
			return again
		}
		woke = true
	}
	into := r.readCounted(began, latest, packets)
	r.self.add(r.now().Mono - began)
	if gone(into) {
		return into
	}
	outside, _ := into.Task.Number(procstats.TreeOutside) // where the cgroup says nothing of what moves
	r.moved = r.quiet != nil && (woke || r.quiet.Moved() || outside > 0)
	r.refreshAt = began + source.UntilTick(began, refreshInterval, phase(r.task.ID, refreshInterval))
	r.reaped.refresh(r, into)
	if r.task.Rows && !r.carried {
		r.sets.add(into, phase(r.task.ID, r.sets.interval))
	}
	r.before, r.last = r.last, into
	r.hand()
	if began >= r.handAt {
		r.handAt = began + source.UntilTick(began, refreshInterval, phase(r.task.ID, refreshInterval))
		r.handCommands()
	}
	return into
}

// isQuiet reports whether the last sample is all there is to say if the task has not moved since: it had not moved then, its rows are
// of the same time, and nobody looks.
func (r *reading) isQuiet(now time.Duration) bool {
	return r.quiet != nil && !r.moved && r.last != nil && !r.carried && now < r.refreshAt && !r.sets.looked(now) && !r.slow.ask(now)
}

// readCounted reads the task, and counts the CPU time of that.
func (r *reading) readCounted(began time.Duration, latest *procstats.Sample, packets bool) *procstats.Sample {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	into := r.read(began, latest, packets)
	r.cost += threadCPU() - before
	return into
}

// takeCost returns what reading the task has cost since the last call.
func (r *reading) takeCost() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	cost := r.cost
	r.cost = 0
	return cost
}

// read reads the totals, and the processes if the next set is due or the task has come to rest, or its end would not be seen. packets says that there were some
// since the last sample: the kernel receives them for a task that sleeps.
func (r *reading) read(now time.Duration, latest *procstats.Sample, packets bool) *procstats.Sample {
	atRest := r.quiet != nil && !r.moved && !packets
	if !atRest && !r.sets.due(now) && seesEnd(latest) {
		bare := *latest
		bare.Processes = nil
		into := source.Sibling(&bare)
		source.CollectAll(into, r.totals)
		if n, _ := into.Task.Number(procstats.CgroupPidsCurrent); n > 0 { // else it is at its end
			r.carried = true
			r.sets.carry(into)
			return into
		}
	}
	r.carried = false
	into := source.Sibling(latest)
	source.CollectAll(into, r.rows, r.totals)
	return into
}

// seesEnd reports whether the totals say when no process is left.
func seesEnd(s *procstats.Sample) bool {
	_, ok := s.Task.Number(procstats.CgroupPidsCurrent)
	return ok
}

// refreshInterval is how often a task is read whole that does not move.
const refreshInterval = 10 * time.Second

// phase spreads what is done at an interval over that time, so that it is not done for all tasks at one tick.
func phase(id string, interval time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // which never fails
	return time.Duration(float64(interval) * float64(h.Sum32()) / (1 << 32))
}

// hand leaves the newest samples to the executor, for the final record.
func (r *reading) hand() {
	if r.handover == nil {
		return
	}
	err := r.handover.Write(wire.Handover{Last: r.last, Before: r.before, Rows: r.sets.newest}, &r.shared.Buffer)
	switch {
	case errors.Is(err, wire.ErrRows):
		r.log.Debug("processes will be missing in the final record unless they are written later", "task", r.task.ID, "error", err)
	case err != nil:
		r.log.Warn("samples will be missing in the final record", "task", r.task.ID, "error", err)
		_ = r.handover.Close()
		r.handover = nil
	}
}

// handFirst leaves the first sample, which was taken before there was where to leave it: if the task does not move, the next one
// that is left is of ten seconds later.
func (r *reading) handFirst() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shared.Lock()
	defer r.shared.Unlock()
	if r.last != nil {
		r.hand()
	}
}

// handCommands leaves the commands to the executor, for the final record and for a later reader.
func (r *reading) handCommands() {
	select {
	case <-r.task.Done:
		return // whoever has closed it has taken them
	default:
	}
	if err := r.exits.hand(r.task.Folder, r.task.Started); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("commands will be missing in the final record if this process ends before the task", "task", r.task.ID, "error", err)
	}
}

// final returns the executor's sample of the ended task, which has its last counters; gauges are those of the last sample. It
// is nil if there is none.
func (r *reading) final(ctx context.Context, last *procstats.Sample) *procstats.Sample {
	ctx, cancel := context.WithTimeout(ctx, finalLimit)
	defer cancel()
	final, err := r.task.Executor.Sample(ctx, 0, r.task.Rows)
	if err != nil || last == nil {
		return nil
	}
	merged := record.MergeFinal(final, last)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.network.Collect(merged)
	}
	return merged
}

// reopen gives up the descriptors of files that not every tick reads: each read opens them.
func (r *reading) reopen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.shared.Lock()
	defer r.shared.Unlock()
	r.totals.Reopen()
	r.rows.Reopen()
}

// close ends what is asked of the executor, and closes the task's files. A tick that still asks gets the last sample.
func (r *reading) close() {
	r.mu.Lock()
	r.closed = true // no question begins from here on
	r.mu.Unlock()
	r.cancel()
	r.reaped.wait()
	if r.slow != nil {
		r.slow.work.Wait()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exits != nil { // also if the files could not be opened: the next reader continues
		r.handCommands()
	}
	r.exits.close()
	var err error
	if r.early != nil && r.early.packets != nil {
		err = r.early.packets.Close()
	}
	if r.totals != nil {
		r.shared.Lock()
		err = errors.Join(err, r.totals.Close(), r.rows.Close())
		r.shared.Unlock()
	}
	if r.handover != nil {
		err = errors.Join(err, r.handover.Close())
	}
	if err != nil {
		r.log.Error("close files of task", "task", r.task.ID, "error", err)
	}
}
