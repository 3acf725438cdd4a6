// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// A file is a header and a fixed number of slots, all numbers little-endian:
//
//	header  8 bytes magic, u32 slots, u16 columns, u16 rows, then a u16 measurement for each column, 0 where it is free
//	slot    u64 sequence, i64 wall ns, i64 mono ns, u32 run, u8 kind, 3 bytes zero, u32 readings, 4 bytes zero, i64 wall ns
//	        of the first reading, a float64 for each column, and room for some processes (see putRows)
//
// A slot has one reading, or several that are the same (see repeats), and its place is its sequence modulo the slots. Sequences
// begin at 1: an empty slot has 0. A slot is written by one pwrite(2), which a kill of this process does not tear; a crash of the
// machine can, where a slot is in two blocks of the disk: it has then a part of the reading that was in its place a whole round before. A
// kill can lose the readings of the last seconds that were the same as those before.
const (
	magic      = "tachoh2\n"
	headerSize = 16
	slotHead   = 48
	// spare columns take measurements that begin later.
	spare = 16
	// maxSequence is never reached; what is above it was not written by us.
	maxSequence = 1 << 62
	// maxColumns is more than the table has rows.
	maxColumns = 512
	// maxSlots is more than a configuration may ask for.
	maxSlots = 1 << 20
)

// mostSetBack is how far the clock may be set back without the readings being dropped: until it has caught up all have the same time.
const mostSetBack = time.Minute

// absent is how a column without a value is kept: a NaN, of which the sign and the rest say nothing.
const absent = 0x7ff8000000000001

// File is an open file of a history.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

// OpenFile opens a file of a history as [os.OpenFile] does.
type OpenFile func(path string, flag int, perm fs.FileMode) (File, error)

func openFile(path string, flag int, perm fs.FileMode) (File, error) {
	file, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err // not file: an interface with a nil in it is not nil
	}
	return file, nil
}

// Ring is the history of one task in its file. It is not safe for concurrent use: see [Queue].
type Ring struct {
	openFile OpenFile
	path     string
	slots    int            // of the file
	wanted   int            // slots of the next file
	opened   bool           // the file was looked for
	file     File           // nil before the first point
	ids      []procstats.ID // of the columns; 0 where free
	rows     int            // room for processes in each slot
	sequence uint64         // of the newest point
	newest   time.Time      // its wall time
	// buffer is the newest slot. It is extensible if it has readings and was written here; unwritten says that it has more of
	// them than its file, where it was written last at a wall time.
	buffer                []byte
	extensible, unwritten bool
	written               time.Time
	closed                bool
}

// NewRing returns a ring that has touched nothing: the first call of a method opens its file.
func NewRing(path string, slots int) *Ring {
	return &Ring{openFile: openFile, path: path, slots: max(1, slots), wanted: max(1, slots)}
}

// open opens the file unless it is open. Without one, the first point makes it. A file that is not a ring is removed; one of another
// size, as the history was longer or shorter, is copied.
func (r *Ring) open() error {
	if r.opened || r.closed {
		return nil
	}
	r.forget()
	file, err := r.openFile(r.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		r.opened = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	r.file = file
	if err := r.load(); err != nil {
		r.forget()
		err = errors.Join(err, file.Close())
		if !errors.Is(err, errForeign) {
			return fmt.Errorf("open history: %w", err)
		}
		if err := os.Remove(r.path); err != nil {
			return fmt.Errorf("open history: %w", err)
		}
	}
	r.opened = true
	if r.file != nil && r.slots != r.wanted {
		if err := r.copyAs(r.wanted, nil, r.rows); err != nil && r.file == nil { // on a disk that is full it stays as it is
			return err
		}
	}
	return nil
}

// forget has nothing of a file.
func (r *Ring) forget() {
	r.file, r.slots, r.ids, r.rows, r.sequence, r.newest = nil, r.wanted, nil, 0, 0, time.Time{}
	r.buffer, r.extensible, r.unwritten = nil, false, false
}

// openAt opens the file for a point at a time. Points that are far after it were written before the clock was set back, as at a boot with
// a wrong time: they are dropped, as nobody would ask for what is in the future.
func (r *Ring) openAt(at time.Time) error {
	if err := r.open(); err != nil || r.file == nil || !at.Before(r.newest.Add(-mostSetBack)) {
		return err
	}
	err := errors.Join(r.file.Close(), os.Remove(r.path))
	r.forget()
	if err != nil {
		return fmt.Errorf("drop history: %w", err)
	}
	return nil
}

// errForeign says that a file is not a ring.
var errForeign = errors.New("not a history")

// load reads the header and finds the newest point.
func (r *Ring) load() error {
	head := make([]byte, headerSize)
	if _, err := r.file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	slots := int(binary.LittleEndian.Uint32(head[8:]))
	columns, rows := int(binary.LittleEndian.Uint16(head[12:])), int(binary.LittleEndian.Uint16(head[14:]))
	if string(head[:8]) != magic || slots < 1 || slots > maxSlots || columns > maxColumns || rows > maxRows {
		return errForeign
	}
	r.slots = slots
	names := make([]byte, 2*columns)
	if _, err := r.file.ReadAt(names, headerSize); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	r.ids, r.rows = make([]procstats.ID, columns), rows
	for i := range r.ids {
		r.ids[i] = procstats.ID(binary.LittleEndian.Uint16(names[2*i:]))
	}
	return r.each(func(slot []byte) {
		if sequence := binary.LittleEndian.Uint64(slot); sequence > r.sequence && sequence <= maxSequence {
			r.sequence = sequence
			r.newest = time.Unix(0, int64(binary.LittleEndian.Uint64(slot[8:])))
		}
	})
}

func (r *Ring) slotSize() int { return slotHead + 8*len(r.ids) + rowSize*r.rows }

func (r *Ring) slotOffset(i int) int64 {
	return int64(headerSize+2*len(r.ids)) + int64(i)*int64(r.slotSize())
}

// each calls f with every slot that was written, in the order of the file.
func (r *Ring) each(f func(slot []byte)) error {
	size := r.slotSize()
	piece := make([]byte, min(r.slots, pieceSlots)*size)
	for first := 0; first < r.slots; first += pieceSlots {
		n, err := r.file.ReadAt(piece[:min(r.slots-first, pieceSlots)*size], r.slotOffset(first))
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read history: %w", err)
		}
		for slot := range slices.Chunk(piece[:n-n%size], size) {
			if binary.LittleEndian.Uint64(slot) != 0 {
				f(slot)
			}
		}
	}
	return nil
}

// Add keeps the numbers of a sample, and its first processes: see [Top].
func (r *Ring) Add(s *procstats.Sample, run int) error {
	if r.closed {
		return fmt.Errorf("write history: %w", fs.ErrClosed)
	}
	if err := r.openAt(s.Wall); err != nil {
		return err
	}
	if err := r.prepare(s); err != nil {
		return err
	}
	if r.repeats(s, run) {
		return r.flushOld()
	}
	if err := r.flush(); err != nil {
		return err
	}
	slot := r.slot(s.Stamp, run, NoGap)
	for i, id := range r.ids {
		putNumber(slot[slotHead+8*i:], s.Task, id)
	}
	putRows(slot[slotHead+8*len(r.ids):], s.Processes)
	err := r.write(slot)
	r.extensible = err == nil
	return err
}

// Mark keeps a gap: from the newest point to at nothing was read. It does nothing in an empty ring, and behind another
// gap, except for OOM kills: each is kept, also of a start that ended before it was read.
func (r *Ring) Mark(at procstats.Stamp, run int, why Gap) error {
	if r.closed {
		return fmt.Errorf("write history: %w", fs.ErrClosed)
	}
	if err := r.openAt(at.Wall); err != nil || r.sequence == 0 {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if why != GapOOM && r.lastIsGap() { // each kill is kept: a start can end before it was read
		return nil
	}
	slot := r.slot(at, run, why)
	for i := range r.ids {
		binary.LittleEndian.PutUint64(slot[slotHead+8*i:], absent)
	}
	putRows(slot[slotHead+8*len(r.ids):], nil)
	return r.write(slot)
}

func (r *Ring) lastIsGap() bool {
	head := make([]byte, slotHead)
	_, err := r.file.ReadAt(head, r.slotOffset(int(r.sequence%uint64(r.slots))))
	return err == nil && head[28] != 0
}

// slot is the next slot with its head filled in.
func (r *Ring) slot(at procstats.Stamp, run int, why Gap) []byte {
	if len(r.buffer) != r.slotSize() {
		r.buffer = make([]byte, r.slotSize())
	}
	// Times are in order, also if the clock was set back.
	if at.Wall.Before(r.newest) {
		at.Wall = r.newest
	}
	b := r.buffer
	r.extensible = false
	clear(b[:slotHead])
	binary.LittleEndian.PutUint64(b, r.sequence+1)
	binary.LittleEndian.PutUint64(b[8:], uint64(at.Wall.UnixNano()))
	binary.LittleEndian.PutUint64(b[16:], uint64(at.Mono))
	binary.LittleEndian.PutUint32(b[24:], uint32(run))
	b[28] = byte(why)
	binary.LittleEndian.PutUint32(b[atRepeats:], 1)
	binary.LittleEndian.PutUint64(b[atFirst:], uint64(at.Wall.UnixNano()))
	return b
}

func (r *Ring) write(slot []byte) error {
	sequence := binary.LittleEndian.Uint64(slot)
	if _, err := r.file.WriteAt(slot, r.slotOffset(int(sequence%uint64(r.slots)))); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	r.sequence, r.newest = sequence, timeOf(slot)
	r.written = r.newest
	return nil
}

// prepare sees to a column for every number of a sample, and to room for its processes.
func (r *Ring) prepare(s *procstats.Sample) error {
	rows := rowsFor(len(s.Processes))
	if r.file == nil {
		return r.create(numbers(s, nil), rows)
	}
	var missing []procstats.ID
	column := 0 // readings mostly come in the order of the columns
	for _, reading := range s.Task {
		if _, ok := reading.Number(); !ok {
			continue
		}
		if column >= len(r.ids) || r.ids[column] != reading.ID() {
			if column = r.index(reading.ID()); column < 0 {
				missing = append(missing, reading.ID())
			}
		}
		column++
	}
	if rows > r.rows {
		return r.widen(missing, rows)
	}
	for _, id := range missing {
		free := r.index(0)
		if free < 0 || free >= len(r.ids) {
			return r.widen(missing, r.rows)
		}
		if _, err := r.file.WriteAt(binary.LittleEndian.AppendUint16(nil, uint16(id)), headerSize+2*int64(free)); err != nil {
			return fmt.Errorf("write history: %w", err)
		}
		r.ids[free] = id
	}
	return nil
}

func (r *Ring) index(id procstats.ID) int {
	for i, other := range r.ids {
		if other == id {
			return i
		}
	}
	return -1
}

func (r *Ring) has(id procstats.ID) bool { return r.index(id) >= 0 }

// numbers lists the measurements of a sample that have a number.
func numbers(s *procstats.Sample, ids []procstats.ID) []procstats.ID {
	for _, reading := range s.Task {
		if _, ok := reading.Number(); ok {
			ids = append(ids, reading.ID())
		}
	}
	return ids
}

// create makes the file with a column for each measurement, and some more, and room for so many processes.
func (r *Ring) create(ids []procstats.ID, rows int) error {
	if len(ids)+spare > maxColumns {
		return fmt.Errorf("write history: %d measurements are too many", len(ids))
	}
	r.ids, r.rows = append(ids, make([]procstats.ID, spare)...), rows
	head := append([]byte(magic), make([]byte, headerSize-len(magic))...)
	binary.LittleEndian.PutUint32(head[8:], uint32(r.slots))
	binary.LittleEndian.PutUint16(head[12:], uint16(len(r.ids)))
	binary.LittleEndian.PutUint16(head[14:], uint16(r.rows))
	for _, id := range r.ids {
		head = binary.LittleEndian.AppendUint16(head, uint16(id))
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o700); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	file, err := r.openFile(r.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	if _, err := file.WriteAt(head, 0); err != nil {
		// Without its head it would be in the way of the next try.
		return errors.Join(fmt.Errorf("write history: %w", err), file.Close(), os.Remove(r.path))
	}
	r.file = file
	return nil
}

// widen makes the file anew with more columns, room for more processes, and the points it had. The old file is the only
// copy: it stays until the new one is whole.
func (r *Ring) widen(more []procstats.ID, rows int) error { return r.copyAs(r.slots, more, rows) }

// copyAs replaces the file by one of a size, with more columns and rows.
func (r *Ring) copyAs(slots int, more []procstats.ID, rows int) error {
	if err := r.flush(); err != nil {
		return err
	}
	r.extensible = false
	wide := &Ring{openFile: r.openFile, path: r.path + ".new", slots: slots, wanted: slots}
	err := os.Remove(wide.path) // of a run that was killed over it
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = r.copyTo(wide, more, rows)
	}
	if err = errors.Join(err, wide.Close()); err != nil {
		_ = os.Remove(wide.path) // or the next time
		return fmt.Errorf("add measurement to history: %w", err)
	}
	// Both are closed: not every system replaces a file that is open.
	if err = errors.Join(r.file.Close(), os.Rename(wide.path, r.path)); err == nil {
		r.slots, r.ids, r.rows, r.sequence, r.newest = wide.slots, wide.ids, wide.rows, wide.sequence, wide.newest
	}
	var again error
	if r.file, again = r.openFile(r.path, os.O_RDWR, 0); err != nil || again != nil {
		r.opened = again == nil // else the next call tries it
		return fmt.Errorf("add measurement to history: %w", errors.Join(err, again))
	}
	return nil
}

// copyTo makes the file of another ring, with the columns of this one and more, and the points of this one.
func (r *Ring) copyTo(wide *Ring, more []procstats.ID, rows int) error {
	var ids []procstats.ID
	for _, id := range r.ids {
		if id != 0 {
			ids = append(ids, id)
		}
	}
	for _, id := range more {
		if !r.has(id) {
			ids = append(ids, id)
		}
	}
	if err := wide.create(ids, rows); err != nil {
		return err
	}
	var failed error
	err := r.between(r.oldest(), r.sequence, func(old []byte) {
		if failed == nil {
			failed = wide.write(r.widened(old, wide))
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return wide.file.Sync() // a crash of the machine must not find the name without the points
}

// widened is the slot of another ring, which has the columns of this one and more, with a point of this one.
func (r *Ring) widened(old []byte, wide *Ring) []byte {
	p := pointOf(r.ids, old)
	slot := wide.slot(p.Stamp, p.Run, p.Gap)
	copy(slot[atRepeats:slotHead], old[atRepeats:slotHead])
	if n, most := repeatsOf(old, r.slots), wide.slots; n > most { // the newest of them
		binary.LittleEndian.PutUint32(slot[atRepeats:], uint32(most))
		first := timeOf(old).Add(-timeOf(old).Sub(firstOf(old)) / time.Duration(n-1) * time.Duration(most-1))
		binary.LittleEndian.PutUint64(slot[atFirst:], uint64(first.UnixNano()))
	}
	for i, id := range wide.ids {
		bits := uint64(absent)
		if v, ok := p.Values[id]; ok && id != 0 {
			bits = math.Float64bits(v)
		}
		binary.LittleEndian.PutUint64(slot[slotHead+8*i:], bits)
	}
	room := slot[slotHead+8*len(wide.ids):]
	clear(room)
	copy(room, old[slotHead+8*len(r.ids):])
	return slot
}

// Close closes the file, which stays; nothing is written after it.
func (r *Ring) Close() error {
	r.closed = true
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.flush(), r.file.Close())
	r.file = nil
	return err
}
