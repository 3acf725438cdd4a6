// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/procstats"
)

const (
	// queueSize is how many readings of a task wait for the disk at most.
	queueSize = 8
	// readTimeout is how long a reader waits for the disk.
	readTimeout = 2 * time.Second
	// episodeEnd is how long no reading has to be dropped before a drop is logged again.
	episodeEnd = time.Minute
)

// ErrBlocked is returned to readers while the disk does not respond.
var ErrBlocked = errors.New("the disk does not respond")

// Writer writes the histories of all tasks, in one goroutine, which runs only while there is something to write. A disk
// that hangs delays only this goroutine: readings that do not fit into a task's queue are dropped.
type Writer struct {
	// OpenFile opens the files; tests replace it before the first queue.
	OpenFile OpenFile

	clock   Clock
	log     hclog.Logger
	failed  func()
	dropped atomic.Int64
	written sync.Pool // of samples

	mu       sync.Mutex // guards following, and the queues
	ready    []*Queue   // with something to write, longest waiting first
	running  bool
	writing  *Queue    // nil between two
	since    time.Time // when the write in progress began
	lastDrop time.Time
}

// NewWriter returns a writer. It calls failed when a task's history cannot be written, once until it can again.
func NewWriter(clock Clock, log hclog.Logger, failed func()) *Writer {
	return &Writer{OpenFile: openFile, clock: clock, log: log, failed: failed}
}

// Dropped counts the readings of all tasks that were dropped because the disk was too slow.
func (w *Writer) Dropped() int64 { return w.dropped.Load() }

// Queue returns the queue of a task's history. It touches no file. earlier is the path of the file of the version
// before.
func (w *Writer) Queue(path, earlier string, slots int, log hclog.Logger) *Queue {
	ring := &Ring{openFile: w.OpenFile, path: path, earlier: earlier, clock: w.clock, wanted: max(1, slots)}
	return &Queue{writer: w, log: log, ring: ring, busy: make(chan struct{}, 1)}
}

// Queue is the history of one task, with the points that wait to be written. Its methods may be called concurrently.
type Queue struct {
	writer  *Writer
	log     hclog.Logger
	busy    chan struct{} // held while ring is used
	ring    *Ring
	failing bool // the last write failed, which was logged
	dropped atomic.Int64

	// The writer's mu guards following.
	pending []pending
	// newest and run are the time and the start of the newest reading, which the next can repeat if repeatable.
	// unsent are its repetitions so far: they do not wake the goroutine.
	newest     procstats.Stamp
	run        int
	repeatable bool
	unsent     again
	written    chan struct{} // closed when nothing is pending; nil if nothing is
	closed     bool
	// abandoned says that the file could not be closed in time: its last user closes it.
	abandoned bool
	// resting says that the task has ended: each user closes the file.
	resting bool
}

// pending is a reading, several that are the same as the one before, or a gap, that waits to be written.
type pending struct {
	sample *procstats.Sample // nil for a gap
	again  again             // none for a gap
	at     procstats.Stamp   // of a reading or a gap
	run    int
	gap    Gap
}

func (p *pending) isGap() bool { return p.sample == nil && p.again.n == 0 }

// Copy returns a copy of a sample for Add, which gives the copy back once it is written. Its readings are its own.
func (q *Queue) Copy(s *procstats.Sample) *procstats.Sample {
	c, ok := q.writer.written.Get().(*procstats.Sample)
	if !ok {
		c = &procstats.Sample{}
	}
	task := append(c.Task[:0], s.Task...)
	*c = *s
	c.Task, c.Processes, c.EarlierSet = task, nil, nil
	return c
}

// Add writes the numbers of a sample, later. It never blocks: if the disk is too slow the reading is dropped.
func (q *Queue) Add(s *procstats.Sample, run int) { q.put(pending{sample: s, at: s.Stamp, run: run}) }

// Again writes a reading, later, that has the numbers of the newest that was added, but for its time and the age of
// its processes. It returns false if that reading cannot be repeated: then this one must be added. It never
// blocks.
func (q *Queue) Again(at procstats.Stamp, run int, age procstats.Reading) bool {
	w := q.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case q.closed:
		return true
	case !q.repeatable || q.run != run || len(q.pending) >= queueSize:
		return false // nothing to repeat, or a disk that does not keep up
	case !evenStep(at.Wall.Sub(q.newest.Wall), at.Mono-q.newest.Mono):
		return false // a clock that was set
	}
	if a := &q.unsent; a.n > 0 {
		usual := q.newest.Wall.Sub(a.before.Wall) / time.Duration(a.n)
		if !evenStep(at.Wall.Sub(q.newest.Wall), usual) || at.Wall.Sub(a.before.Wall) > writeInterval {
			w.sendLocked(q)
		}
	}
	if q.unsent.n == 0 {
		q.unsent.before = q.newest
	}
	q.unsent.n++
	q.unsent.last, q.unsent.age, q.newest = at, age, at
	return true
}

// Mark writes a gap, later: from the newest point to at nothing was read. It never blocks.
func (q *Queue) Mark(at procstats.Stamp, run int, why Gap) {
	q.put(pending{at: at, run: run, gap: why})
}

// Dropped counts the readings of the task that were dropped because the disk was too slow.
func (q *Queue) Dropped() int64 { return q.dropped.Load() }

func (q *Queue) put(p pending) {
	w := q.writer
	w.mu.Lock()
	if q.closed {
		w.mu.Unlock()
		return
	}
	w.sendLocked(q)
	first := false
	if p.sample != nil && len(q.pending) >= queueSize {
		first = w.dropLocked(q)
		p = pending{at: p.at, run: p.run, gap: GapDropped}
	}
	q.newest, q.run, q.repeatable = p.at, p.run, p.sample != nil
	w.appendLocked(q, p)
	path, blocked := w.writingLocked()
	w.mu.Unlock()
	if first {
		w.log.Warn("drop readings from history: the disk does not keep up", "writing", path, "blocked_for", blocked)
	}
}

// dropLocked counts a dropped reading. It reports whether it is the first of an episode.
func (w *Writer) dropLocked(q *Queue) (first bool) {
	w.dropped.Add(1)
	q.dropped.Add(1)
	now := time.Now()
	first = w.lastDrop.IsZero() || now.Sub(w.lastDrop) > episodeEnd
	w.lastDrop = now
	return first
}

// writingLocked returns which file is being written, and since how long; an empty path if none is.
func (w *Writer) writingLocked() (path string, since time.Duration) {
	if w.writing == nil {
		return "", 0
	}
	return w.writing.ring.path, time.Since(w.since).Round(time.Millisecond)
}

// sendLocked puts readings at the end of a queue that are the same as the one before.
func (w *Writer) sendLocked(q *Queue) {
	if q.unsent.n > 0 {
		w.appendLocked(q, pending{again: q.unsent, at: q.unsent.last, run: q.run})
		q.unsent = again{}
	}
}

// appendLocked puts a point at the end of a queue, and lets the goroutine write it.
func (w *Writer) appendLocked(q *Queue, p pending) {
	if n := len(q.pending); n > 0 && p.isGap() && q.pending[n-1].isGap() {
		// As in the file, nothing follows a gap but a reading: the queue is bounded.
		if p.gap == GapDropped {
			q.pending[n-1].gap = GapDropped // a reading is missing that there was
		}
		return
	}
	q.pending = append(q.pending, p)
	if q.written != nil {
		return // it is ready, or being written
	}
	q.written = make(chan struct{})
	w.ready = append(w.ready, q)
	if !w.running {
		w.running = true
		go w.run()
	}
}

// run writes until nothing is pending.
func (w *Writer) run() {
	for q, p, ok := w.next(nil); ok; q, p, ok = w.next(q) {
		q.write(p)
	}
}

// next returns the next write, after a write to last; ok is false if nothing is pending: the goroutine ends.
// Tasks take turns.
func (w *Writer) next(last *Queue) (q *Queue, p pending, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last != nil && len(last.pending) > 0 {
		w.ready = append(w.ready, last)
	} else if last != nil {
		close(last.written)
		last.written = nil
	}
	w.writing = nil
	if len(w.ready) == 0 {
		w.running = false
		return nil, p, false
	}
	q, w.ready = w.ready[0], w.ready[1:]
	p = q.pending[0]
	q.pending = slices.Delete(q.pending, 0, 1) // its memory is used again, and nothing is retained
	w.writing, w.since = q, time.Now()
	return q, p, true
}

// blocked reports whether the write in progress takes longer than readers wait.
func (w *Writer) blocked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, since := w.writingLocked()
	return since > readTimeout
}

func (q *Queue) write(p pending) {
	q.busy <- struct{}{}
	defer q.release()
	var err error
	switch {
	case p.sample != nil:
		err = q.ring.Add(p.sample, p.run)
		q.writer.written.Put(p.sample)
	case p.again.n > 0:
		err = q.ring.Again(p.again, p.run)
	default:
		err = q.ring.Mark(p.at, p.run, p.gap)
	}
	if err != nil {
		q.writer.mu.Lock()
		q.repeatable, q.unsent = false, again{} // what it would repeat is not there
		q.writer.mu.Unlock()
	}
	if err != nil && !q.failing && !errors.Is(err, fs.ErrClosed) {
		q.log.Warn("write history", "error", err)
		q.writer.failed()
	}
	q.failing = err != nil
}

// Points returns what a query selects, oldest first, with all that was added before. The error is ErrBlocked if the
// disk does not answer.
func (q *Queue) Points(query Query) (points []Point, err error) {
	err = ErrBlocked
	if !q.writer.blocked() {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		if err = q.acquire(ctx); err == nil {
			points, err = q.read(ctx, query)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return points, nil
}

// read reads from the acquired ring and releases it, if the disk hangs after its caller has gone.
func (q *Queue) read(ctx context.Context, query Query) ([]Point, error) {
	var points []Point
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer q.release()
		points, err = q.ring.Points(query)
	}()
	select {
	case <-done:
		return points, err
	case <-ctx.Done():
		return nil, ErrBlocked
	}
}

// acquire waits until what was added until now is written, and for the ring.
func (q *Queue) acquire(ctx context.Context) error {
	q.writer.mu.Lock()
	q.writer.sendLocked(q)
	written := q.written
	q.writer.mu.Unlock()
	if written != nil {
		select {
		case <-written:
		case <-ctx.Done():
			return ErrBlocked
		}
	}
	select {
	case q.busy <- struct{}{}: // also if ctx is done
		return nil
	default:
	}
	select {
	case q.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ErrBlocked
	}
}

// release lets the next one use the ring.
func (q *Queue) release() {
	q.writer.mu.Lock()
	abandoned, resting := q.abandoned, q.resting
	q.writer.mu.Unlock()
	switch {
	case abandoned:
		_ = q.ring.Close() // no caller waits for its error
	case resting:
		_ = q.ring.Rest() // as above
	}
	<-q.busy
}

// Rest writes what is pending and closes the file, now and after each further use: the task has ended, and its history
// takes no descriptor. If the disk does not answer until ctx is done, the next use closes it.
func (q *Queue) Rest(ctx context.Context) error {
	q.writer.mu.Lock()
	q.resting = true
	q.writer.mu.Unlock()
	if err := q.acquire(ctx); err != nil {
		return fmt.Errorf("close history %s: %w", q.ring.path, err)
	}
	q.release()
	return nil
}

// Close writes what is pending and closes the file, which stays; what comes after it is ignored. If the disk does not
// answer until ctx is done, what is pending is lost and the file is closed when the disk answers.
func (q *Queue) Close(ctx context.Context) error {
	q.writer.mu.Lock()
	q.closed = true
	q.writer.mu.Unlock()
	if err := q.acquire(ctx); err != nil {
		q.writer.mu.Lock()
		q.abandoned, q.pending, q.unsent = true, nil, again{}
		q.writer.mu.Unlock()
		select {
		case q.busy <- struct{}{}: // free at the last moment
			q.release()
		default:
		}
		return fmt.Errorf("close history %s: %w", q.ring.path, err)
	}
	defer q.release()
	return q.ring.Close()
}
