// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/plugin"
)

var (
	// ErrInUse is wrapped where another agent has the file.
	ErrInUse = errors.New("another agent uses it")
	// ErrNewer is wrapped for a file of a later version, which is left as it is.
	ErrNewer = errors.New("state of a newer version of tacho")

	errDamaged = errors.New("state is damaged")
)

// The buckets of the file. Keys of things below an allocation are its id, a slash, and the task.
const (
	bucketMeta    = "meta"
	bucketJobs    = "jobs"
	bucketAllocs  = "allocations"
	bucketTasks   = "tasks"
	bucketRecords = "records"
	bucketPlugins = "plugins"
)

// The keys of bucketMeta.
const (
	keyVersion = "version"
	keyNode    = "node"
	keyIndex   = "index"
)

// Store is the open file. Its methods may be called concurrently.
type Store struct {
	db *bolt.DB
	// Moved is where a damaged file was moved, and Damage what was wrong with it; empty where none was.
	Moved  string
	Damage error
	// index is asked for the feed's newest index whenever something is stored.
	index func() uint64
}

// Open opens the file, or makes it. A damaged one is moved aside, which Moved says.
func Open(path string) (*Store, error) {
	db, err := open(path)
	s := &Store{index: func() uint64 { return 0 }}
	if errors.Is(err, errDamaged) {
		aside := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
		if err := os.Rename(path, aside); err != nil {
			return nil, fmt.Errorf("move damaged state aside: %w", err)
		}
		s.Moved, s.Damage = aside, err
		db, err = open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", path, err)
	}
	s.db = db
	return s, nil
}

// open opens and checks the file. bbolt answers some damage with a panic.
func open(path string) (db *bolt.DB, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			db, err = nil, fmt.Errorf("%w: %v", errDamaged, fault)
		}
	}()
	// A page that a cut file does not have is a fault of memory, and no panic unless asked for.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, ErrInUse
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	db.MaxBatchDelay = 2 * time.Millisecond
	if err := prepare(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepare checks the pages and makes the buckets.
func prepare(db *bolt.DB) error {
	err := db.View(func(tx *bolt.Tx) error {
		// Check has a goroutine of its own, whose panics nobody catches; this walk comes upon them first.
		first := walk(tx)
		if first != nil {
			return first
		}
		for fault := range tx.Check() {
			if first == nil {
				first = fmt.Errorf("%w: %w", errDamaged, fault)
			}
		}
		return first
	})
	if err != nil {
		return err
	}
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{bucketMeta, bucketJobs, bucketAllocs, bucketTasks, bucketRecords, bucketPlugins} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(bucketMeta))
		if version := meta.Get([]byte(keyVersion)); len(version) == 8 && binary.BigEndian.Uint64(version) > Version {
			return ErrNewer
		}
		return meta.Put([]byte(keyVersion), binary.BigEndian.AppendUint64(nil, Version))
	})
}

// walk reads every page that holds something.
func walk(tx *bolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		return b.ForEach(func(key, value []byte) error {
			if string(name) == bucketMeta || json.Valid(value) {
				return nil
			}
			return fmt.Errorf("%w: %s %s is no JSON", errDamaged, name, key)
		})
	})
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// NodeID returns the node's id, which makeID makes the first time.
func (s *Store) NodeID(makeID func() string) (id string, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		meta := tx.Bucket([]byte(bucketMeta))
		if kept := meta.Get([]byte(keyNode)); kept != nil {
			id = string(kept)
			return nil
		}
		id = makeID()
		return meta.Put([]byte(keyNode), []byte(id))
	})
	return id, err
}

// Index returns an index that no event has had yet, if fewer than unstored have happened since something was stored,
// and takes the function that knows the newest from now on.
func (s *Store) Index(unstored uint64, index func() uint64) (next uint64, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		if kept := tx.Bucket([]byte(bucketMeta)).Get([]byte(keyIndex)); len(kept) == 8 {
			next = binary.BigEndian.Uint64(kept)
		}
		next += unstored
		return putIndex(tx, next)
	})
	s.index = index
	return next, err
}

func putIndex(tx *bolt.Tx, index uint64) error {
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyIndex), binary.BigEndian.AppendUint64(nil, index))
}

// change carries out a change together with the feed's index. Several callers share one write to the disk.
func (s *Store) change(f func(*bolt.Tx) error) error {
	return s.db.Batch(func(tx *bolt.Tx) error {
		if err := putIndex(tx, s.index()); err != nil {
			return err
		}
		return f(tx)
	})
}

// put stores values as JSON.
func (s *Store) put(bucket string, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("store %s %s: %w", bucket, key, err)
	}
	err = s.change(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), text) })
	if err != nil {
		return fmt.Errorf("store %s %s: %w", bucket, key, err)
	}
	return nil
}

// each calls f with every value of a bucket.
func each[T any](s *Store, bucket string, f func(key string, value *T)) error {
	return s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(key, text []byte) error {
			value := new(T)
			if err := json.Unmarshal(text, value); err != nil {
				return fmt.Errorf("read %s %s: %w", bucket, key, err)
			}
			f(string(key), value)
			return nil
		})
	})
}

func get[T any](s *Store, bucket string, key string) (value *T, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		text := tx.Bucket([]byte(bucket)).Get([]byte(key))
		if text == nil {
			return fmt.Errorf("read %s %s: %w", bucket, key, fs.ErrNotExist)
		}
		value = new(T)
		if err := json.Unmarshal(text, value); err != nil {
			return fmt.Errorf("read %s %s: %w", bucket, key, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}

func jobKey(id string, version uint64) string { return fmt.Sprintf("%s\x00%020d", id, version) }

// PutJob stores a version of a job.
func (s *Store) PutJob(j *Job) error { return s.put(bucketJobs, jobKey(j.ID, j.Version), j) }

// DeleteJob forgets a version of a job.
func (s *Store) DeleteJob(id string, version uint64) error {
	return s.change(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketJobs)).Delete([]byte(jobKey(id, version))) })
}

// Jobs returns all versions of all jobs.
func (s *Store) Jobs() (all []*Job, err error) {
	err = each(s, bucketJobs, func(_ string, j *Job) { all = append(all, j) })
	return all, err
}

// PutAllocation stores an allocation without its tasks.
func (s *Store) PutAllocation(a *Allocation) error { return s.put(bucketAllocs, a.ID, a) }

// Allocations returns all allocations.
func (s *Store) Allocations() (all []*Allocation, err error) {
	err = each(s, bucketAllocs, func(_ string, a *Allocation) { all = append(all, a) })
	return all, err
}

// DeleteAllocation forgets an allocation with its tasks and records.
func (s *Store) DeleteAllocation(id string) error {
	return s.change(func(tx *bolt.Tx) error {
		for _, bucket := range []string{bucketTasks, bucketRecords} {
			cursor := tx.Bucket([]byte(bucket)).Cursor()
			for key, _ := cursor.Seek([]byte(id + "/")); strings.HasPrefix(string(key), id+"/"); key, _ = cursor.Next() {
				if err := cursor.Delete(); err != nil {
					return err
				}
			}
		}
		return tx.Bucket([]byte(bucketAllocs)).Delete([]byte(id))
	})
}

// PutTask stores a task's state.
func (s *Store) PutTask(allocID, task string, t *Task) error {
	return s.put(bucketTasks, allocID+"/"+task, t)
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

// PutRecord stores a task's final record.
func (s *Store) PutRecord(allocID, task string, r *record.Record) error {
	return s.put(bucketRecords, allocID+"/"+task, r)
}

// Record returns a task's final record; the error wraps fs.ErrNotExist where there is none.
func (s *Store) Record(allocID, task string) (*record.Record, error) {
	return get[record.Record](s, bucketRecords, allocID+"/"+task)
}

// PutPlugin stores where a plugin's process is.
func (s *Store) PutPlugin(name string, a plugin.Address) error { return s.put(bucketPlugins, name, a) }

// Plugin returns where a plugin's process was; nil where that is not known.
func (s *Store) Plugin(name string) (*plugin.Address, error) {
	a, err := get[plugin.Address](s, bucketPlugins, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return a, err
}
