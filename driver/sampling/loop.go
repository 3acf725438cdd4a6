// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package sampling reads the cgroups and processes of all tasks of a driver in one loop, so that a tick wakes one process and
// not one executor for each task. What it cannot read it leaves to the executor, see [ErrUnreadable].
package sampling

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

const (
	// keptFiles is how many files of a task's processes stay open.
	keptFiles = 8
	// openedFiles is how many descriptors a task takes whose files stay open, those of its connection to the executor included;
	// reopenedFiles is how many one takes whose files are opened for each read, but for those that are read at every tick.
	openedFiles   = 48
	reopenedFiles = 20
)

// group is how many tasks are read before other goroutines have their turn: readers of what was read, and requests.
const group = 16

// Loop reads tasks as long as they have streams. It has one timer, and none without streams.
type Loop struct {
	log    hclog.Logger
	ctx    context.Context // is done when the loop is closed
	cancel context.CancelFunc
	work   sync.WaitGroup
	now    func() procstats.Stamp
	// limit is how many descriptors tasks may take. Where it does not suffice for the files of all, those of some are opened for
	// each read.
	limit  int
	shared *source.Shared
	exits  exitReader
	// network says, once it was tried, why packets cannot be counted on this machine; nil if they can.
	network func() error

	// changed gets a value when a stream was added or removed.
	changed chan struct{}

	mu       sync.Mutex // guards following
	running  bool
	streams  []*Stream
	readings map[string]*reading // of tasks with streams, by id
	files    int                 // that they take
	due      []*Stream           // of one tick; used by run alone
}

// New returns a loop without streams. The logger may be nil.
func New(log hclog.Logger) *Loop {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	l := &Loop{log: log, now: kernel.Now, changed: make(chan struct{}, 1), readings: make(map[string]*reading)}
	l.limit, l.shared, l.exits.log = openFiles()/8*7, &source.Shared{}, log
	l.network = sync.OnceValue(func() error { return network.Try(kernel.HostFS()) })
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close ends all streams and waits for the loop's goroutines; of no loop there are none.
func (l *Loop) Close() {
	if l == nil {
		return
	}
	l.cancel()
	l.work.Wait()
	if err := l.shared.Close(); err != nil {
		l.log.Error("close files of machine", "error", err)
	}
}

// Open begins a stream of samples of a task: the first at once, then one at each multiple of the interval, until ctx ends or
// the task has. The error wraps [ErrUnreadable] if the task must be read by its executor.
func (l *Loop) Open(ctx context.Context, t Task, interval time.Duration) (*Stream, error) {
	if l == nil {
		return nil, fmt.Errorf("no task is read here: %w", ErrUnreadable)
	}
	r, err := l.acquire(ctx, t)
	if err != nil {
		return nil, err
	}
	s := &Stream{loop: l, reading: r, interval: interval, pace: r.pacer.Start(interval), baseline: r.measureFrom(), wake: make(chan struct{}, 1)}
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

// Sample returns a sample of a task that has a stream, at most maxAge old, as are its rows; nil if it has none. Without rows it
// has the totals only.
func (l *Loop) Sample(id string, maxAge time.Duration, rows bool) *procstats.Sample {
	r := l.opened(id)
	if r == nil {
		return nil
	}
	if rows {
		r.look()
	}
	s := r.get(maxAge)
	if s == nil {
		return nil
	}
	if rows {
		if set, ok := s.RowsAt(); ok && s.Mono-set.Mono > maxAge && s.Checked.Zero() {
			s = r.get(0)
		}
		return s
	}
	return source.Only(s, r.totals.Selection().Union(r.slow.selection))
}

// opened returns what reads a task; nil if it is not read here.
func (l *Loop) opened(id string) *reading {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	r := l.readings[id]
	l.mu.Unlock()
	if r == nil || !r.opened.Load() {
		return nil
	}
	return r
}

// Note says how far the interval of a task that has a stream was stretched at most; empty if it was not.
func (l *Loop) Note(id string) string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.readings[id]; r != nil {
		return r.pacer.Note()
	}
	return ""
}

// acquire returns the reading of a task, opened, for one more user.
func (l *Loop) acquire(ctx context.Context, t Task) (*reading, error) {
	l.mu.Lock()
	r := l.readings[t.ID]
	var reopened []*reading
	if r == nil {
		r = &reading{task: t, log: l.log, now: l.now, shared: l.shared, exitReader: &l.exits, tryNetwork: l.network}
		r.pacer = pace.New(t.SamplingBudget, threadCPU, func(text string) {
			l.log.Warn(text, "task", t.ID)
			if t.Stretched != nil {
				t.Stretched(text)
			}
		})
		var fits bool
		if reopened, fits = l.makeRoom(r); !fits {
			l.mu.Unlock()
			return nil, fmt.Errorf("%d tasks take as many open files as this process may have: %w", len(l.readings), ErrUnreadable)
		}
		l.readings[t.ID] = r
	}
	r.users++
	l.mu.Unlock()
	for _, other := range reopened {
		other.reopen()
	}
	if err := r.open(ctx); err != nil {
		l.release(r)
		return nil, err
	}
	return r, nil
}

// makeRoom counts the descriptors of a new task: its files stay open if there is room for them. If there is not even room for
// those that every tick reads, it takes it from other tasks, whose files are to be reopened for each read from then on; false if
// that does not suffice. The caller holds mu.
func (l *Loop) makeRoom(r *reading) (reopened []*reading, fits bool) {
	if l.files+openedFiles <= l.limit {
		r.files = openedFiles
		l.files += r.files
		return nil, true
	}
	free := l.limit - l.files
	for _, other := range l.readings {
		if free >= reopenedFiles {
			break
		}
		if other.files == openedFiles && other.opened.Load() {
			reopened = append(reopened, other)
			free += openedFiles - reopenedFiles
		}
	}
	if free < reopenedFiles {
		return nil, false
	}
	for _, other := range reopened {
		other.files = reopenedFiles
		l.files -= openedFiles - reopenedFiles
	}
	r.files = reopenedFiles
	l.files += r.files
	return reopened, true
}

// release gives a reading up; the last user closes it.
func (l *Loop) release(r *reading) {
	l.mu.Lock()
	r.users--
	last := r.users == 0
	if last {
		l.files -= r.files
		delete(l.readings, r.task.ID)
	}
	l.mu.Unlock()
	if last {
		r.close()
	}
}

func (l *Loop) add(s *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.due = l.next(s)
	l.streams = append(l.streams, s)
	l.work.Add(1)
	if !l.running {
		l.running = true
		l.work.Go(l.run)
	}
	l.signal()
}

func (l *Loop) remove(s *Stream) {
	defer l.work.Done()
	l.mu.Lock()
	l.streams = slices.DeleteFunc(l.streams, func(other *Stream) bool { return other == s })
	l.signal()
	l.mu.Unlock()
	s.pace.End()
	l.release(s.reading)
}

func (l *Loop) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// next is when a stream is due after now: all tasks with one interval at the same time.
func (l *Loop) next(s *Stream) time.Duration {
	now := l.now().Mono
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
	first := l.streams[0].due
	for _, s := range l.streams {
		first = min(first, s.due)
	}
	return max(0, first-l.now().Mono), true
}

// tick reads the tasks of the streams that are due.
func (l *Loop) tick() {
	now := l.now().Mono
	l.mu.Lock()
	l.due = l.due[:0]
	for _, s := range l.streams {
		if s.due <= now {
			s.due = now + source.UntilTick(now, s.interval, 0)
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
	if late := s.pace.Spend(s.reading.takeCost()) - s.interval; late > 0 {
		l.mu.Lock()
		s.due += late
		l.mu.Unlock()
	}
}
