// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

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
