// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/tachograph/tacho/executor/record"
)

var (
	// ErrInUse is wrapped if another agent has the file.
	ErrInUse = errors.New("in use by another agent")
	// ErrNewer is wrapped for a file of a later version, which is left as it is.
	ErrNewer = errors.New("state was written by a newer version of tacho")

	errDamaged = errors.New("damaged")
)

// The buckets of the file. Keys of things below an allocation are its id, a slash, and the task.
const (
	bucketMeta    = "meta"
	bucketJobs    = "jobs"
	bucketAllocs  = "allocations"
	bucketTasks   = "tasks"
	bucketRecords = "records"
)

func bucketNames() []string {
	return []string{bucketMeta, bucketJobs, bucketAllocs, bucketTasks, bucketRecords}
}

// The keys of bucketMeta.
const (
	keyVersion = "version"
	keyNode    = "node"
	keyIndex   = "index"
	// suffixChecksum makes the key of another key's checksum.
	suffixChecksum = ".checksum"
)

// Store is the open file. Its methods may be called concurrently.
type Store struct {
	path string
	// opened is the file that was opened: another one may have its name later.
	opened fs.FileInfo
	db     *bolt.DB
	// Damage is nil for a database that was whole when it was opened.
	Damage *Damage
	// index returns the feed's newest index, which is persisted with every change.
	index func() uint64
	retry retry
}

// Open opens the database, or creates it. A damaged database is moved aside, which Damage says, and its records that
// are whole are used.
func Open(path string) (*Store, error) {
	s := &Store{path: path, index: func() uint64 { return 0 }, retry: newRetry()}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open state database %s: %w", path, err)
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if s.db, s.Damage, err = openWhole(s.path); err != nil {
		return err
	}
	s.db.MaxBatchDelay = 2 * time.Millisecond
	if s.opened, err = os.Stat(s.path); err == nil {
		err = s.db.Update(func(tx *bolt.Tx) error {
			if err := createBuckets(tx); err != nil {
				return err
			}
			return putMeta(tx.Bucket([]byte(bucketMeta)), keyVersion, binary.BigEndian.AppendUint64(nil, Version))
		})
	}
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

func createBuckets(tx *bolt.Tx) error {
	for _, name := range bucketNames() {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the database. It returns an error if changes are not persisted.
func (s *Store) Close() error { return errors.Join(s.retryPending(), s.db.Close()) }

// NodeID returns the node's id, which makeID creates the first time.
func (s *Store) NodeID(makeID func() string) (id string, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		meta := tx.Bucket([]byte(bucketMeta))
		if persisted := meta.Get([]byte(keyNode)); persisted != nil {
			id = string(persisted)
		} else {
			id = makeID()
		}
		return putMeta(meta, keyNode, []byte(id))
	})
	return id, err
}

// Index returns an index that no event has had, if fewer than unstored events happened after the last change. From
// then on index returns the newest one.
func (s *Store) Index(unstored uint64, index func() uint64) (next uint64, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		if persisted := tx.Bucket([]byte(bucketMeta)).Get([]byte(keyIndex)); len(persisted) == 8 {
			next = binary.BigEndian.Uint64(persisted)
		}
		if s.Damage != nil {
			next = max(next, s.Damage.newestIndex)
		}
		next += unstored
		s.index = index // in the transaction, as apply reads it in one
		return putIndex(tx, next)
	})
	return next, err
}

func putIndex(tx *bolt.Tx, index uint64) error {
	return putMeta(tx.Bucket([]byte(bucketMeta)), keyIndex, binary.BigEndian.AppendUint64(nil, index))
}

// putMeta puts a value with its checksum beside it.
func putMeta(meta *bolt.Bucket, key string, value []byte) error {
	if err := meta.Put([]byte(key), value); err != nil {
		return err
	}
	return meta.Put([]byte(key+suffixChecksum), binary.BigEndian.AppendUint32(nil, checksum(bucketMeta, key, value)))
}

// each calls f with every value of a bucket that can be used.
func each[T any](s *Store, bucket string, f func(key string, value *T)) error {
	return s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(key, text []byte) error {
			value := new(T)
			if verifyChecksum(bucket, string(key), text) == nil && json.Unmarshal(text, value) == nil {
				f(string(key), value)
			}
			return nil // Open has reported the others
		})
	})
}

func get[T any](s *Store, bucket string, key string) (value *T, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		text := s.newest(tx, bucket, key)
		if text == nil {
			return fs.ErrNotExist
		}
		value = new(T)
		return errors.Join(verifyChecksum(bucket, key, text), json.Unmarshal(text, value))
	})
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", bucket, key, err)
	}
	return value, nil
}

// newest returns what a record has, or will have once it can be persisted.
func (s *Store) newest(tx *bolt.Tx, bucket, key string) []byte {
	s.retry.mu.Lock()
	defer s.retry.mu.Unlock()
	if c, ok := s.retry.pending[bucket+"/"+key]; ok {
		return c.value
	}
	return tx.Bucket([]byte(bucket)).Get([]byte(key))
}

func jobKey(id string, version uint64) string { return fmt.Sprintf("%s\x00%020d", id, version) }

// DeleteJob deletes a version of a job.
func (s *Store) DeleteJob(id string, version uint64) error {
	return s.Apply(Change{bucket: bucketJobs, key: jobKey(id, version)})
}

// Jobs returns all versions of all jobs.
func (s *Store) Jobs() (all []*Job, err error) {
	err = each(s, bucketJobs, func(_ string, j *Job) { all = append(all, j.complete()) })
	return all, err
}

// complete puts into the specification what is persisted beside it.
func (j *Job) complete() *Job {
	if j.Spec == nil {
		return j
	}
	j.Spec.Source = j.Source
	for _, g := range j.Spec.Groups {
		g.Digest = j.Digests[g.Name]
	}
	return j
}

// Allocations returns all allocations.
func (s *Store) Allocations() (all []*Allocation, err error) {
	err = each(s, bucketAllocs, func(_ string, a *Allocation) { all = append(all, a) })
	return all, err
}

// DeleteAllocation deletes an allocation with its tasks and records.
func (s *Store) DeleteAllocation(id string) error {
	return s.Apply(
		Change{bucket: bucketTasks, key: id + "/", below: true},
		Change{bucket: bucketRecords, key: id + "/", below: true},
		Change{bucket: bucketAllocs, key: id},
	)
}

// Tasks returns all tasks' states, by allocation and name.
func (s *Store) Tasks() (all map[string]map[string]*Task, err error) {
	all = make(map[string]map[string]*Task)
	err = each(s, bucketTasks, func(key string, t *Task) {
		allocID, task, _ := strings.Cut(key, "/")
		if all[allocID] == nil {
			all[allocID] = make(map[string]*Task)
		}
		all[allocID][task] = t
	})
	return all, err
}

// Task returns a task's state; the error wraps fs.ErrNotExist if it was never persisted.
func (s *Store) Task(allocID, task string) (*Task, error) {
	return get[Task](s, bucketTasks, allocID+"/"+task)
}

// Record returns a task's final record; the error wraps fs.ErrNotExist without one.
func (s *Store) Record(allocID, task string) (*record.Record, error) {
	return get[record.Record](s, bucketRecords, allocID+"/"+task)
}

// Damage is what was wrong with a database when it was opened.
type Damage struct {
	// Moved is where the damaged database is now. Its records that are whole are in a new one, if bbolt could read them.
	Moved string
	// Faults name what was wrong.
	Faults []error

	// newestIndex is the largest index of the records, in case the feed's index was lost.
	newestIndex uint64
}

// openBolt opens a database. errDamaged is wrapped for one that bbolt refuses, some of them with a panic.
func openBolt(path string, readOnly bool) (db *bolt.DB, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			db, err = nil, fmt.Errorf("%w: %v", errDamaged, fault)
		}
	}()
	// A page that a cut file does not have is a fault of memory, and no panic unless asked for.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, ReadOnly: readOnly})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, ErrInUse
	}
	// What the system refuses, such as to write on a read-only file system, says nothing of the database.
	if _, refused := errors.AsType[syscall.Errno](err); err == nil || refused {
		return db, err
	}
	return nil, fmt.Errorf("%w: %w", errDamaged, err)
}

// openWhole opens a database, or creates it. A damaged one is moved, and its records that are whole are put into
// another.
func openWhole(path string) (*bolt.DB, *Damage, error) {
	var stale error
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if stale, err = verify(path); errors.Is(err, errDamaged) {
			return replace(path, nil, err)
		} else if err != nil {
			return nil, nil, err
		}
	}
	db, err := openBolt(path, false)
	if err != nil {
		return nil, nil, err
	}
	var found *records
	err = db.View(func(tx *bolt.Tx) (err error) {
		if found, err = survey(tx, false, stale); err == nil && len(found.faults) > 0 {
			found, err = survey(tx, true, stale)
		}
		return err
	})
	if err == nil && found.version > Version {
		err = ErrNewer
	}
	if err == nil && len(found.faults) == 0 {
		return db, nil, nil
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, nil, err
	}
	return replace(path, found, found.faults...)
}

// replace moves a damaged database, and creates one with records of it.
func replace(path string, found *records, faults ...error) (*bolt.DB, *Damage, error) {
	d := &Damage{Moved: path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000"), Faults: faults}
	if err := os.Rename(path, d.Moved); err != nil {
		return nil, nil, fmt.Errorf("move damaged database: %w", err)
	}
	db, err := openBolt(path, false)
	if err != nil || found == nil {
		return db, d, err
	}
	d.newestIndex = found.newestIndex
	err = db.Update(func(tx *bolt.Tx) error {
		if err := createBuckets(tx); err != nil {
			return err
		}
		for _, c := range found.whole {
			err := c.apply(tx)
			if c.bucket == bucketMeta {
				err = putMeta(tx.Bucket([]byte(bucketMeta)), c.key, c.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, d, nil
}

// records are those of a database.
type records struct {
	// whole are those that can be used, if keep is set; faults are what is wrong with the others.
	keep                 bool
	whole                []Change
	faults               []error
	version, newestIndex uint64
}

// survey reads all records, and keeps those that can be used if asked to. A reason why they may be stale is a
// fault. The error is bbolt's.
func survey(tx *bolt.Tx, keep bool, stale error) (*records, error) {
	r := &records{keep: keep}
	if stale != nil {
		r.faults = append(r.faults, stale)
	}
	missing := len(bucketNames()) // a later version may have others too
	err := tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		if !slices.Contains(bucketNames(), string(name)) {
			return nil
		}
		missing--
		return b.ForEach(func(key, value []byte) error {
			r.add(string(name), string(key), value, b)
			return nil
		})
	})
	if missing > 0 && missing < len(bucketNames()) {
		r.faults = append(r.faults, fmt.Errorf("missing buckets: %d", missing))
	}
	return r, err
}

func (r *records) add(bucket, key string, value []byte, b *bolt.Bucket) {
	var err error
	switch {
	case bucket != bucketMeta:
		err = verifyChecksum(bucket, key, value)
	case strings.HasSuffix(key, suffixChecksum):
		return // checked and written with its value
	default:
		err = checkMeta(key, value, b)
	}
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("%s %q: %w", bucket, key, err))
		return
	}
	if r.keep {
		r.whole = append(r.whole, Change{bucket: bucket, key: key, value: bytes.Clone(value)})
	}
	switch {
	case bucket == bucketMeta && key == keyVersion && len(value) == 8:
		r.version = binary.BigEndian.Uint64(value)
	case bucket == bucketJobs, bucket == bucketAllocs:
		var indexed struct{ ModifyIndex uint64 }
		if json.Unmarshal(value, &indexed) == nil {
			r.newestIndex = max(r.newestIndex, indexed.ModifyIndex)
		}
	}
}

// checkMeta compares a value of the meta bucket with its checksum.
func checkMeta(key string, value []byte, b *bolt.Bucket) error {
	sum := b.Get([]byte(key + suffixChecksum))
	if len(sum) != 4 || binary.BigEndian.Uint32(sum) != checksum(bucketMeta, key, value) {
		return errors.New("checksum differs")
	}
	return nil
}
