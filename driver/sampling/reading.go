// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// ErrUnreadable says that a task must be read by its executor: it has no cgroup to itself, this process may not read
// it, or the executor is of an older build.
var ErrUnreadable = errors.New("the task must be read by its executor")

// Executor is what is asked of a task's executor.
type Executor interface {
	// Target returns what only the executor knows, or no more of it than what it has reaped.
	Target(ctx context.Context, reapedOnly bool) (*proto.TargetResponse, error)
	Sample(ctx context.Context, maxAge time.Duration, rows bool) (*procstats.Sample, error)
	// Lost is closed when its process is gone.
	Lost() <-chan struct{}
}

// Task is a running task, or a cgroup that is only watched.
type Task struct {
	// ID is the driver's.
	ID string
	// Executor is nil for what is watched, of which Selection and MaxRows are set in its place.
	Executor  Executor
	Selection procstats.Selection
	MaxRows   int
	// Process is the executor's, and Folder its directory.
	Process procstats.ProcessID
	Folder  string
	Cgroup  procstats.Cgroup
	Started time.Time
	// Rows says that samples have process rows, which are read once in RowInterval, and for every sample after they
	// were asked for.
	Rows        bool
	RowInterval time.Duration
	// SamplingBudget is the share of one core that reading it may take; 0 for the default. Stretched is called when
	// an interval becomes at least twice as long as before, with what from, what to and why; it may be nil.
	SamplingBudget float64
	Stretched      func(text string)
	// Done is closed when the task has ended.
	Done <-chan struct{}
}

const (
	// baselineAge is how old a sample may be for the first rate to be measured from it. An older one would make the
	// first answer an average over a time that was not asked for.
	baselineAge = 10 * time.Second
	// finalLimit bounds the wait for an executor's last answer.
	finalLimit = time.Second
)

// reading is a task that is read here, for all its streams. It is shared by them and by all who ask something about
// the task meanwhile, and closed after the last of them; until then no other one of the task is opened, which would
// count the same ends, packets and files.
type reading struct {
	// Reader is nil until the reading is opened.
	*reader.Reader
	loop *Loop

	// The loop's mu guards following until the first stream.
	task  Task        // its id only before the first stream
	pacer *pace.Pacer // nil before the first stream
	// streams are those of the task, and users they and all others. unused is a user as well, which ends the counts of a
	// started task that gets no stream; nil without such counts.
	streams, users int
	unused         *time.Timer

	counts // guarded by opening

	// ctx ends with the last user of the reading, or the loop; gone is closed when the reading is.
	ctx    context.Context
	cancel context.CancelFunc
	gone   chan struct{}

	opening sync.Mutex // held while the reading is opened, and guards failed
	failed  error      // why it cannot be opened, not even by others
	opened  atomic.Bool

	executor executorSide
	slow     *slowSource
	handover *reader.HandoverWriter // nil if there is none
	handAt   time.Duration          // when the commands are handed over next
	warned   atomic.Bool            // that something could not be handed over
	// earlier is the CPU time that a watched cgroup had used before its ended processes were counted, if it was read.
	earlier procstats.Reading
	// baseline is from before the first sample, until a stream has it.
	baseline atomic.Pointer[procstats.Sample]
}

func (l *Loop) newReading(id string) *reading {
	r := &reading{loop: l, task: Task{ID: id}, gone: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(l.ctx)
	return r
}

// begin is called for the first stream of a task.
func (r *reading) begin(t Task) {
	r.task = t
	r.pacer = pace.New(t.SamplingBudget, nil, func(text string) {
		r.loop.log.Warn(text, "task", t.ID)
		if t.Stretched != nil {
			t.Stretched(text)
		}
	})
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
	if r.task.Executor == nil {
		r.failed = r.openWatched()
		return r.failed
	}
	earlier := r.takeOver()
	target, asked, err := r.ask(ctx)
	if err != nil {
		return err // another user may have more time
	}
	executors := wire.ToSample(asked.GetSample())
	r.openReader(target, wire.ToSelection(asked.GetSelection()), executors)
	r.resume(executors, earlier)
	if r.failed = compare(r.Whole(), executors); r.failed != nil {
		return r.failed
	}
	r.opened.Store(true)
	r.Repeat() // if the task does not move, the next sample that is handed over is of ten seconds later
	return nil
}

// openWatched opens a cgroup that something else made. Its counters are those of the kernel, since the cgroup began.
func (r *reading) openWatched() error {
	group := r.task.Cgroup
	r.exits = r.loop.watching.WatchExits(group, nil)
	pids, _ := kernel.ListCgroup(group.Procs()) // of one that is gone
	r.exits.Running(pids...)
	r.openReader(source.Target{
		FS: kernel.HostFS(), Cgroup: group, MaxRows: r.task.MaxRows, MaxKept: keptFiles, Running: true,
	}, r.task.Selection, &procstats.Sample{})
	r.earlier = procstats.CPUTotal(r.Whole()).Reading
	if _, err := os.Stat(group.Procs()); err != nil {
		return fmt.Errorf("read cgroup: %w", err)
	}
	r.opened.Store(true)
	return nil
}

// takeOver reads what an earlier reader of the task has handed over, and continues its counts, or those of before the
// start.
func (r *reading) takeOver() *reader.Handover {
	earlier, err := reader.ReadHandover(r.task.Folder)
	if err != nil {
		r.loop.log.Warn("counts of an earlier reader are lost", "task", r.task.ID, "error", err)
	}
	if r.handover == nil {
		if r.handover, err = reader.OpenHandover(r.task.Folder); err != nil {
			r.warn(err)
		}
	}
	if r.exits == nil {
		r.exits = r.loop.programs.WatchExits(r.task.Cgroup, earlier.Counted)
	}
	return earlier
}

func (r *reading) openReader(target source.Target, selection procstats.Selection, executors *procstats.Sample) {
	shared := r.loop.shared
	shared.Lock()
	defer shared.Unlock()
	target.Shared, target.Joined = shared, r.exits.Running
	o := reader.Options{
		Target: target, Selection: selection, ID: r.task.ID,
		RowInterval: max(r.task.RowInterval, time.Nanosecond), NoRows: !r.task.Rows,
		Executor: r.task.Process.PID, Unsampled: "the task was not sampled before", Pacer: r.pacer,
		Packets: r.openPackets(selection, executors), Counted: executors, Quiet: true, Watched: r.task.Executor == nil,
	}
	if !o.Watched {
		r.slow = newSlowSource(r.ctx, r.task.Executor, selection, executors)
		o.Slow, o.Sampled = r.slow, r.sampled
	}
	r.Reader = reader.Open(o)
	for _, file := range target.Opened {
		_ = file.Close() // the sources have descriptors of their own
	}
}

// resume continues where the executor and an earlier reader of the task have stopped.
func (r *reading) resume(executors *procstats.Sample, earlier *reader.Handover) {
	r.baseline.Store(executors)
	if earlier.Last == nil {
		return
	}
	r.Continue(earlier, unreaped)
	if age := r.loop.now().Mono - earlier.Last.Mono; age >= 0 && age < baselineAge {
		r.baseline.Store(earlier.Last)
	}
}

// measureFrom returns a sample from which a new stream's first rates are measured.
func (r *reading) measureFrom() *procstats.Sample {
	last, before := r.Recent()
	return cmp.Or(r.baseline.Swap(nil), before, last)
}

// compare holds a first sample against the executor's: what that can read and this process cannot is the executor's
// to read.
func compare(own, executors *procstats.Sample) error {
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

// sampled hands a sample over, and asks the executor again for what it has reaped if it is time to. The reader's lock
// is held, and that of what all tasks share.
func (r *reading) sampled(s, rows *procstats.Sample) {
	r.executor.refresh(r, s)
	if !r.opened.Load() || r.handover == nil {
		return
	}
	if err := r.handover.Write(s, rows, &r.loop.memory); err != nil {
		r.warn(err)
	}
	if s.Mono >= r.handAt {
		r.handAt = s.Mono + source.UntilTick(s.Mono, reader.RefreshInterval, reader.Phase(r.task.ID, reader.RefreshInterval))
		r.handCommands()
	}
}

// handCommands hands over what ended processes have used, unless the task has ended and Commands has returned that.
func (r *reading) handCommands() {
	select {
	case <-r.task.Done:
		return
	default:
	}
	if counted := r.exits.Counted(r.task.Started); counted != nil {
		if err := r.handover.WriteCommands(counted); err != nil {
			r.warn(err)
		}
	}
}

// warn says once that the handover is incomplete.
func (r *reading) warn(err error) {
	if !r.warned.Swap(true) {
		r.loop.log.Warn("the record will be incomplete if this process ends before the task", "task", r.task.ID, "error", err)
	}
}

// final returns the executor's sample of the ended task, which has its last counters; gauges are those of the last
// sample. It is nil if there is none.
func (r *reading) final(ctx context.Context, last *procstats.Sample) *procstats.Sample {
	ctx, cancel := context.WithTimeout(ctx, finalLimit)
	defer cancel()
	final, err := r.task.Executor.Sample(ctx, 0, r.task.Rows)
	if err != nil || last == nil {
		return nil
	}
	merged := record.MergeFinal(final, last)
	r.AddPackets(merged)
	return merged
}

// close closes the task's files, and ends what is asked of the executor. A tick that still asks gets the last sample.
func (r *reading) close() {
	var errs []error
	if r.Reader != nil {
		errs = append(errs, r.Close(nil)) // nothing is asked from here on
	}
	r.cancel()
	r.executor.wait()
	if r.slow != nil {
		r.slow.work.Wait()
	}
	if r.handover != nil {
		r.handCommands() // also if the files could not be opened: the next reader continues
		errs = append(errs, r.handover.Close())
	}
	r.exits.Close()
	if r.packets != nil {
		errs = append(errs, r.packets.Close())
	}
	if err := errors.Join(errs...); err != nil {
		r.loop.log.Error("close files of task", "task", r.task.ID, "error", err)
	}
}

// acquire returns the reading of a task, opened, for one more stream.
func (l *Loop) acquire(ctx context.Context, t Task) (*reading, error) {
	for {
		r, closing, err := l.enter(t)
		switch {
		case err != nil:
			return nil, err
		case closing == nil:
			if err := r.open(ctx); err != nil {
				l.leave(r) // what was counted since before the start stays for the record
				return nil, err
			}
			l.Forget(t.ID)
			return r, nil
		}
		select {
		case <-closing:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for an earlier stream: %w", context.Cause(ctx))
		}
	}
}

// enter returns the reading of a task, opened or not, for one more stream, or what is closed when an earlier one is
// out of the way.
func (l *Loop) enter(t Task) (r *reading, closing <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("sampling has ended: %w", err)
	}
	r = l.readings[t.ID]
	switch {
	case r == nil && len(l.readings) >= l.limit:
		const text = "this process may have as many files open as %d tasks take: %w"
		return nil, nil, fmt.Errorf(text, l.limit, ErrUnreadable)
	case r == nil:
		r = l.newReading(t.ID)
		l.readings[t.ID] = r
	case r.streams == 0 && r.unused == nil:
		return nil, r.gone, nil
	}
	if r.pacer == nil {
		r.begin(t)
	}
	r.streams++
	r.users++
	l.work.Add(1)
	return r, nil, nil
}

// leave gives the reading of a stream up.
func (l *Loop) leave(r *reading) {
	l.mu.Lock()
	r.streams--
	l.mu.Unlock()
	l.release(r)
}

// use returns what reads a task, for a question, until it is released; nil if the task is not read here. It may not be
// opened yet.
func (l *Loop) use(id string) *reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.readings[id]
	if r == nil || r.streams == 0 && r.unused == nil {
		return nil
	}
	r.users++
	l.work.Add(1)
	return r
}

// release gives a reading up; the last user closes it.
func (l *Loop) release(r *reading) {
	defer l.work.Done()
	l.mu.Lock()
	r.users--
	last := r.users == 0
	l.mu.Unlock()
	if !last {
		return
	}
	r.close()
	l.mu.Lock()
	delete(l.readings, r.task.ID)
	l.mu.Unlock()
	close(r.gone)
}
