// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"context"
	"fmt"
)

// acquire returns the reading of a task, opened, for one more stream.
func (l *Loop) acquire(ctx context.Context, t Task) (*reading, error) {
	for {
		r, closing, err := l.enter(t)
		switch {
		case err != nil:
			return nil, err
		case closing == nil:
			if err := r.open(ctx); err != nil {
				l.leave(r)
				return nil, err
			}
			return r, nil
		}
		select {
		case <-closing:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for an earlier stream: %w", context.Cause(ctx))
		}
	}
}

// enter returns the reading of a task, opened or not, for one more stream, or what is closed when an earlier one is out of the way.
func (l *Loop) enter(t Task) (r *reading, closing <-chan struct{}, err error) {
	l.mu.Lock()
	if err := l.ctx.Err(); err != nil {
		l.mu.Unlock()
		return nil, nil, fmt.Errorf("sampling has ended: %w", err)
	}
	r = l.readings[t.ID]
	if r != nil && r.streams == 0 {
		l.mu.Unlock()
		return nil, r.gone, nil
	}
	var reopened []*reading
	if r == nil {
		r = l.newReading(t)
		var fits bool
		if reopened, fits = l.makeRoom(r); !fits {
			tasks := len(l.readings)
			l.mu.Unlock()
			return nil, nil, fmt.Errorf("%d tasks take as many open files as this process may have: %w", tasks, ErrUnreadable)
		}
		l.readings[t.ID] = r
	}
	r.streams++
	r.users++
	l.work.Add(1)
	l.mu.Unlock()
	for _, other := range reopened {
		other.Reopen()
	}
	return r, nil, nil
}

// leave gives the reading of a stream up.
func (l *Loop) leave(r *reading) {
	l.mu.Lock()
	r.streams--
	l.mu.Unlock()
	l.release(r)
}

// use returns what reads a task, for a question, until it is released; nil if the task is not read here. A reading that is being
// opened counts only with opening.
func (l *Loop) use(id string, opening bool) *reading {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.readings[id]
	if r == nil || r.streams == 0 || !opening && !r.opened.Load() {
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
	l.files -= r.files
	delete(l.readings, r.task.ID)
	l.mu.Unlock()
	close(r.gone)
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
		if other.files == openedFiles && other.streams > 0 && other.opened.Load() {
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
