// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/failpoint"
)

// Change is a change of one record, or of all below a key.
type Change struct {
	bucket, key string
	// value is nil for a record that is deleted.
	value []byte
	// below says that all records are deleted whose keys begin with key.
	below bool
	err   error
}

func changeTo(bucket, key string, value any) Change {
	text, err := json.Marshal(value)
	if err != nil {
		return Change{bucket: bucket, key: key, err: err}
	}
	return Change{bucket: bucket, key: key, value: withChecksum(bucket, key, text)}
}

// ChangeJob puts a version of a job.
func ChangeJob(j *Job) Change { return changeTo(bucketJobs, jobKey(j.ID, j.Version), j) }

// ChangeAllocation puts an allocation.
func ChangeAllocation(a *Allocation) Change { return changeTo(bucketAllocs, a.ID, a) }

// ChangeTask puts a task.
func ChangeTask(allocID, task string, t *Task) Change {
	return changeTo(bucketTasks, allocID+"/"+task, t)
}

// ChangeRecord puts a task's final record.
func ChangeRecord(allocID, task string, r *record.Record) Change {
	return changeTo(bucketRecords, allocID+"/"+task, r)
}

func (c *Change) apply(tx *bolt.Tx) error {
	bucket := tx.Bucket([]byte(c.bucket))
	switch {
	case c.below:
		cursor := bucket.Cursor()
		for key, _ := cursor.Seek([]byte(c.key)); bytes.HasPrefix(key, []byte(c.key)); key, _ = cursor.Next() {
			if err := cursor.Delete(); err != nil {
				return err
			}
		}
		return nil
	case c.value == nil:
		return bucket.Delete([]byte(c.key))
	}
	return bucket.Put([]byte(c.key), c.value)
}

// retry holds changes that could not be persisted after they had happened.
type retry struct {
	// persisting is held for reading while something is persisted, and for writing while what is pending is tried again.
	persisting sync.RWMutex
	failed     chan struct{} // holds a token when something failed

	mu      sync.Mutex // guards following
	pending map[string]Change
	err     error // of the last change, nil if it was persisted
	since   time.Time
}

func newRetry() retry {
	return retry{failed: make(chan struct{}, 1), pending: make(map[string]Change)}
}

func (c *Change) id() string { return c.bucket + "/" + c.key }

// Apply persists changes, all or none; they are on disk when it returns. It is for what is persisted before it
// happens.
func (s *Store) Apply(changes ...Change) error {
	_, err := s.persist(changes, false)
	return err
}

// Persist persists what has happened already, like Apply. It retries what fails until it succeeds or a newer change
// replaces it; Health reports it meanwhile. It returns the error of the first failure only.
func (s *Store) Persist(changes ...Change) error {
	first, err := s.persist(changes, true)
	if !first {
		return nil
	}
	return err
}

func (s *Store) persist(changes []Change, keep bool) (first bool, err error) {
	if err = s.silent(); err == nil {
		s.retry.persisting.RLock()
		defer s.retry.persisting.RUnlock()
		err = s.apply(changes, !keep)
	}
	first = s.noteResult(changes, err)
	s.retry.mu.Lock()
	defer s.retry.mu.Unlock()
	for _, c := range changes {
		if keep && err != nil && c.err == nil {
			s.retry.pending[c.id()] = c
		}
	}
	return first, err
}

// silent returns an error while the disk does not respond: no other write waits for it until the retry has succeeded.
func (s *Store) silent() error {
	s.retry.mu.Lock()
	defer s.retry.mu.Unlock()
	if errors.Is(s.retry.err, errSilent) {
		return s.retry.err
	}
	return nil
}

// errSilent is returned while a disk hangs.
var errSilent = errors.New("the disk does not respond")

// writeLimit is how long a write may take before the disk is called silent.
const writeLimit = 5 * time.Second

// The states of a write.
const (
	writeQueued = iota
	writeBegun
	writeAbandoned // it changes nothing any more, unless it is being committed
)

// write makes changes in a transaction. A disk that hangs is waited for if it is exact and may already be writing them:
// then it is not known whether they are made.
func (s *Store) write(exact bool, change func(*bolt.Tx) error) error {
	var state atomic.Int32
	done := make(chan error, 1)
	go func() {
		done <- s.db.Batch(func(tx *bolt.Tx) error {
			if !state.CompareAndSwap(writeQueued, writeBegun) && state.Load() == writeAbandoned {
				return errSilent
			}
			return change(tx)
		})
	}()
	limit := time.NewTimer(writeLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-limit.C:
	}
	if exact && !state.CompareAndSwap(writeQueued, writeAbandoned) {
		s.noteResult(nil, errSilent)
		return <-done
	}
	state.Store(writeAbandoned)
	return errSilent
}

// apply persists changes in one transaction. Several callers share one write to the disk.
func (s *Store) apply(changes []Change, exact bool) error {
	for _, c := range changes {
		if c.err != nil {
			return fmt.Errorf("persist %s %s: %w", c.bucket, c.key, c.err)
		}
	}
	err := errors.Join(s.replaced(), failpoint.Err("state.write"))
	if err == nil {
		err = s.write(exact, func(tx *bolt.Tx) error {
			if err := putIndex(tx, s.index()); err != nil {
				return err
			}
			for _, c := range changes {
				if err := c.apply(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		return nil
	}
	what := "state"
	if len(changes) > 0 {
		what = changes[0].bucket + " " + changes[0].key
	}
	return fmt.Errorf("persist %s: %w", what, err)
}

// noteResult records whether persisting works. first is true for the first failure since it worked.
func (s *Store) noteResult(changes []Change, err error) (first bool) {
	s.retry.mu.Lock()
	defer s.retry.mu.Unlock()
	if err != nil {
		if first = s.retry.err == nil; first {
			s.retry.since = time.Now()
		}
		s.retry.err = err
		select {
		case s.retry.failed <- struct{}{}:
		default:
		}
		return first
	}
	s.retry.err = nil
	for _, c := range changes {
		delete(s.retry.pending, c.id())
		if c.below {
			maps.DeleteFunc(s.retry.pending, func(id string, _ Change) bool { return strings.HasPrefix(id, c.id()) })
		}
	}
	return false
}

// errReplaced is returned once the file is not the one that was opened.
var errReplaced = errors.New("the database was deleted or replaced: restart the agent")

// replaced returns an error if another file has the database's name: what is written to the open one is lost.
func (s *Store) replaced() error {
	now, err := os.Stat(s.path)
	if err != nil || !os.SameFile(now, s.opened) {
		return fmt.Errorf("%s: %w", s.path, errReplaced)
	}
	return nil
}

// Failing returns why nothing can be persisted: the last try failed, or the file is another. What is about to happen
// must not happen then, even if there is room for its own few bytes.
func (s *Store) Failing() error {
	s.retry.mu.Lock()
	failed := s.retry.err != nil
	s.retry.mu.Unlock()
	if err := s.replaced(); err != nil || !failed {
		return err
	}
	return s.Health()
}

// Health returns why changes are not persisted, or nil.
func (s *Store) Health() error {
	if err := s.replaced(); err != nil {
		return err
	}
	s.retry.mu.Lock()
	defer s.retry.mu.Unlock()
	switch n := len(s.retry.pending); {
	case s.retry.err == nil && n == 0:
		return nil
	case s.retry.err == nil:
		return fmt.Errorf("changes that are not persisted yet: %d", n)
	default:
		since := s.retry.since.UTC().Format(time.RFC3339)
		return fmt.Errorf("changes that are not persisted since %s: %d: %w", since, n, s.retry.err)
	}
}

// The time between tries to persist what failed, and between looks at the file.
const (
	firstRetry   = time.Second
	longestRetry = 10 * time.Second
	lookInterval = 10 * time.Second
)

// Run retries what could not be persisted until ctx is done. It calls changed with nil once all is persisted, and
// with an error if the file was deleted or replaced meanwhile.
func (s *Store) Run(ctx context.Context, changed func(error)) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	var wait time.Duration
	var again <-chan time.Time // nil if nothing has failed
	for {
		select {
		case <-look.C:
			if err := s.replaced(); err != nil && s.noteResult(nil, err) {
				changed(err)
			}
		case <-s.retry.failed:
			if again == nil {
				wait, again = firstRetry, time.After(firstRetry)
			}
		case <-again:
			if again = nil; s.retryPending() == nil {
				changed(nil)
				continue
			}
			wait = min(2*wait, longestRetry)
			again = time.After(wait)
		case <-ctx.Done():
			return
		}
	}
}

// retryPending persists what is pending.
func (s *Store) retryPending() error {
	s.retry.persisting.Lock()
	defer s.retry.persisting.Unlock()
	s.retry.mu.Lock()
	changes := slices.Collect(maps.Values(s.retry.pending))
	failed := s.retry.err != nil
	s.retry.mu.Unlock()
	if len(changes) == 0 && !failed {
		return nil
	}
	err := s.apply(changes, false)
	s.retry.mu.Lock()
	changes = slices.DeleteFunc(changes, func(c Change) bool { // others may have changed again while the disk was silent
		return !bytes.Equal(s.retry.pending[c.id()].value, c.value)
	})
	s.retry.mu.Unlock()
	s.noteResult(changes, err)
	return err
}
