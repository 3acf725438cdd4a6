// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package sampling reads the cgroups and processes of all tasks of a driver in one loop, so that a tick wakes one
// process and not one executor for each task. What it cannot read it leaves to the executor, see [ErrUnreadable].
package sampling

import (
	"cmp"
	"context"
	"io"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

const (
	// keptFiles is how many files of a task's processes stay open.
	keptFiles = 8
	// openedFiles is how many descriptors a task takes at most, its connection to the executor and keptFiles included.
	// Version 1 takes most: 19 of cgroups, 5 of the connection, and 2 of programs.
	openedFiles = 34
)

// group is how many tasks are read before other goroutines have their turn: readers of what was read, and requests.
const group = 16

// Loop reads tasks as long as they have streams. It has one timer, and none without streams.
type Loop struct {
	log    hclog.Logger
	ctx    context.Context // is done when the loop is closed
	cancel context.CancelFunc
	work   sync.WaitGroup // of the goroutine, and of each use of a reading
	now    func() procstats.Stamp
	limit  int // how many tasks this process has descriptors for
	shared *source.Shared
	memory reader.Memory // guarded as shared is
	// programs are those of tasks, watching those of what is only watched: of one set, the innermost of the cgroups
	// that an ended process was in gets the record of it.
	programs, watching *reader.Programs

	// changed gets a value when a stream was added or removed.
	changed chan struct{}

	mu       sync.Mutex // guards following
	running  bool
	streams  []*Stream
	readings map[string]*reading // of tasks with streams or counts, by id, until they are closed
	due      []*Stream           // of one tick; used by run alone
}

// New returns a loop without streams. With executorsOnly it reads no task and leaves all to their executors.
func New(log hclog.Logger, executorsOnly bool) *Loop {
	l := &Loop{
		log: log, now: kernel.Now, changed: make(chan struct{}, 1),
		readings: make(map[string]*reading),
		shared:   &source.Shared{Watches: true}, programs: reader.NewPrograms(log), watching: reader.NewPrograms(log),
	}
	if !executorsOnly {
		l.limit = kernel.FileLimit() / 8 * 7 / openedFiles
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close ends all streams and waits for the loop's goroutines and for all uses of a task.
func (l *Loop) Close() {
	l.mu.Lock() // no task is acquired from here on
	l.cancel()
	ids := slices.Collect(maps.Keys(l.readings))
	l.mu.Unlock()
	for _, id := range ids {
		l.Forget(id)
	}
	l.work.Wait()
	l.programs.Close()
	l.watching.Close()
	if err := l.shared.Close(); err != nil {
		l.log.Error("close files of machine", "error", err)
	}
}

// Open begins a stream of samples of a task: the first at once, then one at each multiple of the interval, until ctx
// ends or the task has. The error wraps [ErrUnreadable] if the task must be read by its executor.
func (l *Loop) Open(ctx context.Context, t Task, interval time.Duration) (*Stream, error) {
	r, err := l.acquire(ctx, t)
	if err != nil {
		return nil, err
	}
	s := &Stream{
		loop: l, reading: r, interval: interval, pace: r.pacer.Start(interval), baseline: r.measureFrom(),
		wake: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.read()
	s.deliver()
	l.add(s)
	detach := context.AfterFunc(l.ctx, func() { s.cancel(context.Cause(l.ctx)) })
	context.AfterFunc(s.ctx, func() {
		detach()
		l.remove(s)
	})
	return s, nil
}

// Sample returns a sample of a task that has a stream, at most maxAge old, as are its rows; nil if it has none.
// Without rows it has the totals only.
func (l *Loop) Sample(id string, maxAge time.Duration, rows bool) *procstats.Sample {
	r := l.use(id)
	if r == nil {
		return nil
	}
	defer l.release(r)
	if !r.opened.Load() {
		return nil
	}
	if rows {
		r.Look()
		r.Get(maxAge, true)
	}
	s := r.Next(maxAge)
	if s == nil || rows {
		return s
	}
	return r.TotalsOf(s)
}

// Note says how far the interval of a task that has a stream was stretched at most; empty if it was not.
func (l *Loop) Note(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.readings[id]; r != nil && r.pacer != nil {
		return r.pacer.Note()
	}
	return ""
}

func (l *Loop) add(s *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.due = s.next(l.now().Mono)
	l.streams = append(l.streams, s)
	if !l.running {
		l.running = true
		l.work.Go(l.run)
	}
	l.signal()
}

func (l *Loop) remove(s *Stream) {
	l.mu.Lock()
	l.streams = slices.DeleteFunc(l.streams, func(other *Stream) bool { return other == s })
	l.signal()
	l.mu.Unlock()
	s.pace.End()
	l.leave(s.reading)
}

func (l *Loop) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// next is when a stream is due after now: all tasks with one interval at the same time.
func (s *Stream) next(now time.Duration) time.Duration {
	return now + source.UntilTick(now, s.interval, 0)
}

// run reads what is due until no stream is left.
func (l *Loop) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, ok := l.untilDue()
		if !ok {
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
			l.tick()
		case <-l.changed:
		}
	}
}

// untilDue is how long nothing is due; false if there is no stream, and then the caller must return.
func (l *Loop) untilDue() (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) == 0 {
		l.running = false
		return 0, false
	}
	first := slices.MinFunc(l.streams, func(a, b *Stream) int { return cmp.Compare(a.due, b.due) })
	return max(0, first.due-l.now().Mono), true
}

// tick reads the tasks of the streams that are due.
func (l *Loop) tick() {
	now := l.now().Mono
	l.mu.Lock()
	l.due = l.due[:0]
	for _, s := range l.streams {
		if s.due <= now {
			s.due = s.next(now)
			l.due = append(l.due, s)
		}
	}
	l.mu.Unlock()
	for few := range slices.Chunk(l.due, group) {
		for _, s := range few {
			l.read(s)
		}
		for _, s := range few { // at once: each reader that is woken alone wakes a thread for it
			s.deliver()
		}
		runtime.Gosched()
	}
	clear(l.due)
}

// read reads a task, and leaves out ticks of its stream if that takes more than its budget.
func (l *Loop) read(s *Stream) {
	s.read()
	if late := s.pace.Spend(s.reading.TakeCost()) - s.interval; late > 0 {
		l.mu.Lock()
		s.due += late
		l.mu.Unlock()
	}
}

// Stream sends samples of one task to one reader. A slow reader gets the newest.
type Stream struct {
	loop     *Loop
	reading  *reading
	interval time.Duration
	pace     *pace.Pace
	ctx      context.Context
	cancel   context.CancelCauseFunc

	due time.Duration // on the monotonic clock; the loop's mu guards it

	newest atomic.Pointer[procstats.Sample]
	wake   chan struct{} // gets a value when newest is set
	// sent, baseline and over are the reader's.
	sent, baseline *procstats.Sample
	over, complete bool // complete: the final sample was sent

	resting sync.Mutex // guards following, and what is the reader's while it waits
	waits   bool       // Recv does
	quiet   func(*procstats.Sample) bool
}

// read reads the task, unless another reader has done so less than half an interval ago.
func (s *Stream) read() {
	if s.ctx.Err() != nil {
		return
	}
	switch sample := s.reading.Next(s.interval / 2); {
	case sample != nil && s.pass(sample):
	case sample != nil:
		s.newest.Store(sample)
	case s.reading.task.Executor == nil: // else the task is at its end, and its executor says how it came about
		s.cancel(io.EOF)
	}
}

// deliver wakes the reader if there is something that it has not received.
func (s *Stream) deliver() {
	if s.newest.Load() == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// OnQuiet has a function called with the samples of a task that does not move, while Recv waits and in place of its
// return: to wake a goroutine costs more than to read such a task. The function must not block, nor call the stream. It
// returns false for a sample that Recv shall return all the same.
func (s *Stream) OnQuiet(f func(*procstats.Sample) bool) {
	s.resting.Lock()
	defer s.resting.Unlock()
	s.quiet = f
}

// pass reports whether a sample was taken by the function for those of a task that does not move.
func (s *Stream) pass(sample *procstats.Sample) bool {
	s.resting.Lock()
	defer s.resting.Unlock()
	if !s.waits || s.quiet == nil || sample.Checked.Zero() || s.newest.Load() != nil || !s.isNew(sample) ||
		!s.quiet(sample) {
		return false
	}
	s.sent, s.baseline = sample, nil
	return true
}

// wait says whether Recv waits.
func (s *Stream) wait(waits bool) {
	s.resting.Lock()
	defer s.resting.Unlock()
	s.waits = waits
}

// Baseline returns a sample that was taken not long before the first one, until that is received.
func (s *Stream) Baseline() *procstats.Sample { return s.baseline }

// Interval is the time until the next sample: longer than asked for if reading the task takes more than its budget.
func (s *Stream) Interval() time.Duration { return s.pace.Interval() }

// Look has the processes read for every sample for a while.
func (s *Stream) Look() { s.reading.Look() }

// Recv returns the next sample. After the executor's final sample of an ended task, or the end of one whose executor
// was lost, it is io.EOF, and so it is after a watched cgroup was removed.
func (s *Stream) Recv() (*procstats.Sample, error) {
	var lost <-chan struct{}
	if executor := s.reading.task.Executor; executor != nil {
		lost = executor.Lost()
	}
	defer s.wait(false)
	for {
		s.wait(false)
		if sample := s.newest.Swap(nil); s.isNew(sample) {
			return s.send(sample), nil
		}
		if s.over {
			s.cancel(io.EOF)
			return nil, io.EOF
		}
		s.wait(true)
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-lost:
			// The reading has to stay until the driver has killed what is left, and has taken what was counted of it.
			select {
			case <-s.reading.task.Done:
			case <-s.ctx.Done():
				return nil, context.Cause(s.ctx)
			}
			s.over = true
		case <-s.reading.task.Done:
			s.wait(false)
			s.over = true
			if final := s.reading.final(s.ctx, s.sent); final != nil {
				// The loop can have read the task at the same time as the executor, which has what counts: nothing
				// follows it.
				s.complete = true
				if s.sent != nil && final.Mono <= s.sent.Mono {
					final.Stamp = s.loop.now() // nothing has changed since
				}
				return s.send(final), nil
			}
		}
	}
}

func (s *Stream) send(sample *procstats.Sample) *procstats.Sample {
	s.sent, s.baseline = sample, nil
	return sample
}

// isNew reports whether a sample was not sent yet.
func (s *Stream) isNew(sample *procstats.Sample) bool {
	return sample != nil && !s.complete && (s.sent == nil || sample.Mono > s.sent.Mono)
}
