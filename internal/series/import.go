// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// The version before this one has a shorter header, and slots without an origin. Its builds remove what they cannot
// read, so each version has a file of its own: after a rollback the earlier build finds its file as it left it, and
// after the next upgrade this version imports what was added to it meanwhile. The header names the last sequence of the
// earlier file that was imported.
const (
	earlierMagic      = "tachoh2\n"
	earlierHeaderSize = 16
	earlierSlotHead   = 48
)

// importEarlier copies the points of the earlier version's file that were not imported yet.
func (r *Ring) importEarlier() error {
	if r.earlier == "" {
		return nil
	}
	file, err := r.openFile(r.earlier, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		r.earlier = ""
		return nil
	}
	if err != nil {
		return err
	}
	old := &Ring{file: file, layout: layout{headerSize: earlierHeaderSize, slotHead: earlierSlotHead}}
	err = old.load(earlierMagic)
	if err == nil && old.sequence != r.imported {
		from := r.imported + 1
		if old.sequence < r.imported {
			from = 1 // that build began again
		}
		r.imported = old.sequence
		copyOld := func(into *Ring) error { return old.copyTo(into, from) }
		err = r.rewrite(r.wanted, old.ids, max(r.rows, old.rows), copyOld)
	}
	if errors.Is(err, errForeign) {
		err, r.earlier = nil, ""
	}
	return errors.Join(err, file.Close())
}

// dropEarlier removes the earlier version's file when all of its points were evicted here.
func (r *Ring) dropEarlier() {
	if r.earlier != "" && r.sequence > 3*uint64(r.slots) {
		_ = os.Remove(r.earlier) // it is only in the way of the disk
		r.earlier = ""
	}
}

// rewrite replaces the file by one of a size, with more columns, room for more processes, and the points of fill, which
// may be nil, behind its own. The old file is the only copy: it stays until the new one is complete.
func (r *Ring) rewrite(slots int, more []procstats.ID, rows int, fill func(into *Ring) error) error {
	if err := r.flush(); err != nil {
		return err
	}
	r.extensible = false
	into := &Ring{openFile: r.openFile, path: r.path + ".new", wanted: slots, clock: r.clock, opened: true}
	into.reset()
	into.imported = r.imported
	err := os.Remove(into.path) // of a build that was killed while it wrote
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = into.create(r.columnsWith(more), rows)
	}
	if err == nil && r.file != nil {
		err = r.copyTo(into, r.oldest())
	}
	if err == nil && fill != nil {
		err = fill(into)
	}
	if err == nil {
		err = into.file.Sync() // a crash of the machine must not find the name without the points
	}
	if err = errors.Join(err, into.Close()); err != nil {
		_ = os.Remove(into.path) // or the next time
		return fmt.Errorf("rewrite history: %w", err)
	}
	// Both are closed: not every system replaces a file that is open.
	if r.file != nil {
		err = r.file.Close()
	}
	if err = errors.Join(err, os.Rename(into.path, r.path)); err == nil {
		r.layout, r.sequence, r.newest, r.boots = into.layout, into.sequence, into.newest, into.boots
	}
	var again error
	r.identity = nil
	if r.file, again = r.openFile(r.path, os.O_RDWR, 0); err != nil || again != nil {
		r.opened = again == nil // else the next call tries it
		return fmt.Errorf("rewrite history: %w", errors.Join(err, again))
	}
	return nil
}

// columnsWith returns the measurements that have a column, and more.
func (r *Ring) columnsWith(more []procstats.ID) (ids []procstats.ID) {
	for _, id := range slices.Concat(r.ids, more) {
		if id != 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// copyTo writes the points from a sequence on into a ring that has their columns and room for their processes.
func (r *Ring) copyTo(into *Ring, from uint64) error {
	columns := make([]int, len(into.ids))
	for i, id := range into.ids {
		columns[i] = -1
		if id != 0 {
			columns[i] = r.index(id)
		}
	}
	var failed error
	err := r.between(max(from, r.oldest()), r.sequence, func(old []byte) {
		if failed == nil {
			failed = into.write(r.convert(old, into, columns))
		}
	})
	return errors.Join(err, failed)
}

// convert returns the next slot of another ring with a point of this one. columns says where this one has its columns.
func (r *Ring) convert(old []byte, into *Ring, columns []int) []byte {
	slot := make([]byte, into.slotSize())
	copy(slot[:slotHead], old[:r.slotHead])
	setSequence(slot, into.sequence+1)
	if n, most := repeatsOf(old, r.slots), into.slots; n > most { // the newest of them
		binary.LittleEndian.PutUint32(slot[atRepeats:], uint32(most))
		step := timeOf(old).Sub(firstOf(old)) / time.Duration(n-1)
		putTime(slot[atFirst:], timeOf(old).Add(-step*time.Duration(most-1)))
	}
	for i, column := range columns {
		bits := uint64(absent)
		if column >= 0 {
			bits = binary.LittleEndian.Uint64(r.column(old, column))
		}
		binary.LittleEndian.PutUint64(into.column(slot, i), bits)
	}
	copy(into.column(slot, len(into.ids)), r.column(old, len(r.ids)))
	return slot
}
