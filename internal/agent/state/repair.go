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
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Damage is what was wrong with a file when it was opened.
type Damage struct {
	// Moved is where the file is now, if it was damaged as a whole: what could be read of it is in a new one. Faults are what
	// was wrong with it.
	Moved  string
	Faults []error
	// Records were set aside, into File. That is empty if it could not be written: then they are still where they were.
	Records []Record
	File    string

	// newestIndex is that of the records, in case the feed's index was lost.
	newestIndex uint64
}

// Record is one that cannot be used.
type Record struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
	Value  []byte `json:"value"`
}

// Tasks reports whether the state of a task may have been lost: which, a damaged key does not say.
func (d *Damage) Tasks() bool { return d.lost(bucketTasks) }

// Jobs reports whether a version of a job may have been lost.
func (d *Damage) Jobs() bool { return d.lost(bucketJobs) }

func (d *Damage) lost(bucket string) bool {
	return d != nil && (d.Moved != "" || slices.ContainsFunc(d.Records, func(r Record) bool { return r.Bucket == bucket }))
}

// set reports whether a record was set aside.
func (d *Damage) set(bucket, key string) bool {
	return slices.ContainsFunc(d.Records, func(r Record) bool { return r.Bucket == bucket && r.Key == key })
}

// repair makes a file that can be opened of one that is damaged, and sets aside what cannot be used.
func repair(path string) (*Damage, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// For its lock: nobody changes the file while it is read. That it cannot be opened is no surprise.
	held, err := openBolt(path, true)
	if err != nil && !errors.Is(err, errDamaged) {
		return nil, err
	}
	if held != nil {
		defer func() { _ = held.Close() }() // nothing was written
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	found := new(survey)
	faults := checkPages(file, info.Size(), found.visit)
	found.checkMeta()
	if found.version > Version {
		return nil, ErrNewer
	}
	if len(faults) == 0 && len(found.bad) == 0 {
		return nil, nil
	}
	d := &Damage{Faults: faults, Records: found.bad, newestIndex: found.newest}
	stamp := time.Now().UTC().Format("20060102T150405.000")
	if len(found.bad) > 0 {
		if d.File, err = writeAside(path+".set-aside-"+stamp, found.bad); err != nil && len(faults) == 0 {
			return d, nil // they stay where they are, and are not used
		}
	}
	if held != nil {
		_ = held.Close() // nothing was written
	}
	if len(faults) == 0 {
		return d, remove(path, found.bad)
	}
	d.Moved = path + ".damaged-" + stamp
	return d, rebuild(file, info.Size(), path, d)
}

// survey reads all records, and keeps those that cannot be used.
type survey struct {
	bad     []Record
	version uint64
	newest  uint64
	meta    map[string][]byte
}

func (s *survey) visit(bucket string, key, value []byte) {
	if bucket == bucketMeta {
		if s.meta == nil {
			s.meta = make(map[string][]byte)
		}
		s.meta[string(key)] = bytes.Clone(value)
		return
	}
	if err := checkRecord(bucket, string(key), value); err != nil {
		s.reject(bucket, string(key), value, err)
		return
	}
	if bucket != bucketJobs && bucket != bucketAllocs {
		return
	}
	var indexed struct{ ModifyIndex uint64 }
	if json.Unmarshal(value, &indexed) == nil {
		s.newest = max(s.newest, indexed.ModifyIndex)
	}
}

func (s *survey) reject(bucket, key string, value []byte, err error) {
	s.bad = append(s.bad, Record{Bucket: bucket, Key: key, Reason: err.Error(), Value: bytes.Clone(value)})
}

// checkMeta compares the values of the meta bucket with their checksums, which files of earlier versions do not have.
func (s *survey) checkMeta() {
	known := []string{keyNode, keyIndex, keyVersion}
	checked := slices.ContainsFunc(known, func(key string) bool { return s.meta[key+suffixChecksum] != nil })
	for _, key := range slices.Sorted(maps.Keys(s.meta)) {
		value := s.meta[key]
		of, isChecksum := strings.CutSuffix(key, suffixChecksum)
		sum := s.meta[key+suffixChecksum]
		switch {
		case isChecksum && s.meta[of] == nil:
			s.reject(bucketMeta, key, value, errors.New("checksum of nothing"))
		case isChecksum, sum == nil && !checked && slices.Contains(known, key):
		case len(sum) != 4 || binary.BigEndian.Uint32(sum) != checksum(bucketMeta, key, value):
			s.reject(bucketMeta, key, value, errors.New("checksum differs"))
		}
	}
	if version := s.meta[keyVersion]; len(version) == 8 && !slices.ContainsFunc(s.bad, func(r Record) bool { return r.Key == keyVersion }) {
		s.version = binary.BigEndian.Uint64(version)
	}
}

// writeAside writes records into a file, a line of JSON each.
func writeAside(path string, records []Record) (string, error) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, r := range records {
		if err := encoder.Encode(r); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// remove deletes records from a file that is whole.
func remove(path string, records []Record) error {
	db, err := openBolt(path, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, r := range records {
			if err := tx.Bucket([]byte(r.Bucket)).Delete([]byte(r.Key)); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// rebuild makes a new file of what can be used of a damaged one, which is moved.
func rebuild(file *os.File, size int64, path string, d *Damage) error {
	made := path + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := open(made)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		var failed error
		checkPages(file, size, func(bucket string, key, value []byte) {
			if failed == nil && !d.set(bucket, string(key)) {
				failed = salvage(tx, bucket, key, value)
			}
		})
		return failed
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	if err := os.Rename(path, d.Moved); err != nil {
		return fmt.Errorf("move damaged state: %w", err)
	}
	return os.Rename(made, path)
}

// salvage puts a record that can be used into a new file.
func salvage(tx *bolt.Tx, bucket string, key, value []byte) error {
	into := tx.Bucket([]byte(bucket))
	if into == nil || len(key) == 0 || len(key) > bolt.MaxKeySize {
		return nil
	}
	if bucket == bucketMeta && strings.HasPrefix(string(key), keyVersion) {
		return nil
	}
	return into.Put(bytes.Clone(key), bytes.Clone(value))
}
