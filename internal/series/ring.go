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
//	header  8 bytes magic, u32 slots, u16 columns, u16 rows, u64 imported (see import.go), then a u16 measurement for
//	        each column, 0 where it is free
//	slot    u64 sequence, i64 wall ns, i64 mono ns, u32 run, u8 kind, 3 bytes zero, u32 readings, u32 boot, i64 wall ns
//	        of the first reading, i64 wall ns of mono 0, a float64 for each column, and room for processes (see putRows)
//
// A slot holds one reading, or several equal ones (see repeats). Its place is its sequence modulo the slots. Sequences
// begin at 1: an empty slot has 0. A slot is written by one pwrite(2), which a kill of this process does not tear; a
// crash of the machine can, if the slot is in two blocks of the disk: it then has a part of the reading that was in its
// place a round before. A kill can lose the readings of the last seconds that were equal to those before.
const (
	magic      = "tachoh3\n"
	headerSize = 24
	slotHead   = 56

	// Places in the head of a slot.
	atWall, atMono, atRun, atKind, atRepeats, atBoot, atFirst, atOrigin = 8, 16, 24, 28, 32, 36, 40, 48

	// spare columns take measurements that begin later.
	spare = 16
	// maxSequence is never reached; a larger one was not written by us.
	maxSequence = 1 << 62
	// maxColumns is more than the table has rows.
	maxColumns = 512
	// maxSlots is more than a configuration may ask for.
	maxSlots = 1 << 20
)

// absent is the value of a column that was not measured: a NaN, whose sign and payload mean nothing.
const absent = 0x7ff8000000000001

// File is an open file of a history.
type File interface {
	Stat() (fs.FileInfo, error)
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

// Ring is the history of one task in its file. It is not safe for concurrent use: see [Queue]. The first call of a
// method opens the file.
type Ring struct {
	openFile OpenFile
	path     string
	earlier  string // the file of the version before, if it exists
	clock    Clock
	wanted   int // slots of the next file

	opened, closed bool        // the file was looked for; nothing is written any more
	file           File        // nil before the first point
	identity       fs.FileInfo // of file; nil until it is asked for
	layout
	sequence uint64          // of the newest point
	newest   procstats.Stamp // its time
	boots    []boot          // of all points, oldest first

	// buffer is the newest slot. It is extensible if it has readings and was written here; unwritten says that it has
	// more of them than its file, where it was written last at written.
	buffer                []byte
	extensible, unwritten bool
	written               time.Duration
}

// layout says where a file has what.
type layout struct {
	headerSize, slotHead int
	slots                int
	imported             uint64
	ids                  []procstats.ID // of the columns; 0 where free
	rows                 int            // room for processes in each slot
}

func (l *layout) slotSize() int { return l.slotHead + 8*len(l.ids) + rowSize*l.rows }

func (l *layout) slotOffset(sequence uint64) int64 {
	return int64(l.headerSize+2*len(l.ids)) + int64(sequence%uint64(l.slots))*int64(l.slotSize())
}

// column is where a slot has a column, and behind the last one its processes.
func (l *layout) column(slot []byte, i int) []byte { return slot[l.slotHead+8*i:] }

func (l *layout) index(id procstats.ID) int { return slices.Index(l.ids, id) }

// open opens the file unless it is open. Without one, the first point creates it. A file that is not a ring is removed;
// one of another size, as the history was longer or shorter, is copied.
func (r *Ring) open() error {
	if r.opened || r.closed {
		return nil
	}
	r.reset()
	file, err := r.openFile(r.path, os.O_RDWR, 0)
	if err == nil {
		r.file = file
		if err = r.load(magic); err != nil {
			r.reset()
			err = errors.Join(err, file.Close())
		}
		if errors.Is(err, errForeign) {
			err = os.Remove(r.path)
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = r.importEarlier()
	}
	if err != nil {
		if r.file != nil {
			err = errors.Join(err, r.file.Close())
		}
		return fmt.Errorf("open history: %w", err)
	}
	r.opened = true
	if r.file != nil && r.slots != r.wanted {
		if err := r.rewrite(r.wanted, nil, r.rows, nil); err != nil && r.file == nil { // on a full disk it stays as it is
			return err
		}
	}
	return nil
}

// reset forgets what was read of a file.
func (r *Ring) reset() {
	r.file, r.identity, r.layout = nil, nil, layout{headerSize: headerSize, slotHead: slotHead, slots: r.wanted}
	r.sequence, r.newest, r.boots = 0, procstats.Stamp{}, nil
	r.buffer, r.extensible, r.unwritten = nil, false, false
}

// errForeign says that a file is not a ring of the wanted version.
var errForeign = errors.New("not a history")

// load reads the header and finds the newest point and the boots.
func (r *Ring) load(magic string) error {
	head := make([]byte, r.headerSize)
	if _, err := r.file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	slots := int(binary.LittleEndian.Uint32(head[8:]))
	columns, rows := int(binary.LittleEndian.Uint16(head[12:])), int(binary.LittleEndian.Uint16(head[14:]))
	if string(head[:8]) != magic || slots < 1 || slots > maxSlots || columns > maxColumns || rows > maxRows {
		return errForeign
	}
	if r.headerSize == headerSize {
		r.imported = binary.LittleEndian.Uint64(head[16:])
	}
	names := make([]byte, 2*columns)
	if _, err := r.file.ReadAt(names, int64(r.headerSize)); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	r.slots, r.ids, r.rows = slots, make([]procstats.ID, columns), rows
	for i := range r.ids {
		r.ids[i] = procstats.ID(binary.LittleEndian.Uint16(names[2*i:]))
	}
	err := r.scan(0, uint64(slots), func(_ uint64, slot []byte) {
		sequence := sequenceOf(slot)
		if sequence <= maxSequence && sequence > r.sequence {
			r.sequence, r.newest = sequence, stampOf(slot)
		}
	})
	return errors.Join(err, r.between(r.oldest(), r.sequence, r.observe))
}

// Add stores the numbers of a sample, and its first processes: see [Top].
func (r *Ring) Add(s *procstats.Sample, run int) error {
	if err := r.openToWrite(); err != nil {
		return err
	}
	if err := r.prepare(s); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	slot := r.slot(s.Stamp, run, NoGap)
	for i, id := range r.ids {
		binary.LittleEndian.PutUint64(r.column(slot, i), bitsOf(s.Task, id))
	}
	putRows(r.column(slot, len(r.ids)), s.Processes)
	err := r.write(slot)
	r.extensible = err == nil
	return err
}

func (r *Ring) openToWrite() error {
	if r.closed {
		return fs.ErrClosed
	}
	if r.file != nil && !r.found() {
		err := r.file.Close()
		r.reset()
		r.opened = false
		return errors.Join(fmt.Errorf("%s was removed or replaced while the task ran; the history begins anew", r.path), err)
	}
	return r.open()
}

// found reports whether readers find the file that is open.
func (r *Ring) found() bool {
	if r.identity == nil { // which a file keeps
		r.identity, _ = r.file.Stat()
	}
	there, err := os.Lstat(r.path)
	return err == nil && os.SameFile(r.identity, there)
}

// Mark stores a gap: from the newest point to at nothing was read. It does nothing in an empty ring, and behind another
// gap, except for OOM kills: each is stored, as a start can end before it was read.
func (r *Ring) Mark(at procstats.Stamp, run int, why Gap) error {
	if err := r.openToWrite(); err != nil || r.sequence == 0 {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if why != GapOOM && r.lastIsGap() {
		return nil
	}
	slot := r.slot(at, run, why)
	for i := range r.ids {
		binary.LittleEndian.PutUint64(r.column(slot, i), absent)
	}
	clear(r.column(slot, len(r.ids)))
	return r.write(slot)
}

func (r *Ring) lastIsGap() bool {
	head := make([]byte, r.slotHead)
	_, err := r.file.ReadAt(head, r.slotOffset(r.sequence))
	return err == nil && gapOf(head) != NoGap
}

// slot is the next slot with its head filled in.
func (r *Ring) slot(at procstats.Stamp, run int, why Gap) []byte {
	if len(r.buffer) != r.slotSize() {
		r.buffer = make([]byte, r.slotSize())
	}
	if n := len(r.boots); n > 0 && r.boots[n-1].id == r.clock.Boot && at.Mono < r.newest.Mono {
		at = r.newest // taken before the newest, and delivered after it
	}
	b := r.buffer
	r.extensible = false
	clear(b[:slotHead])
	setSequence(b, r.sequence+1)
	putTime(b[atWall:], at.Wall)
	binary.LittleEndian.PutUint64(b[atMono:], uint64(at.Mono))
	binary.LittleEndian.PutUint32(b[atRun:], uint32(run))
	b[atKind] = byte(why)
	binary.LittleEndian.PutUint32(b[atRepeats:], 1)
	binary.LittleEndian.PutUint32(b[atBoot:], r.clock.Boot)
	putTime(b[atFirst:], at.Wall)
	binary.LittleEndian.PutUint64(b[atOrigin:], uint64(r.clock.origin(at)))
	return b
}

func (r *Ring) write(slot []byte) error {
	sequence := sequenceOf(slot)
	if _, err := r.file.WriteAt(slot, r.slotOffset(sequence)); err != nil {
		return err
	}
	r.observe(slot)
	r.sequence, r.newest = sequence, stampOf(slot)
	r.written = r.newest.Mono
	r.dropEarlier()
	return nil
}

// prepare provides a column for every number of a sample, and room for its processes.
func (r *Ring) prepare(s *procstats.Sample) error {
	rows := rowsFor(len(s.Processes))
	if r.file == nil {
		return r.create(numbers(s), rows)
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
		return r.rewrite(r.slots, missing, rows, nil)
	}
	for _, id := range missing {
		free := r.index(0)
		if free < 0 {
			return r.rewrite(r.slots, missing, r.rows, nil)
		}
		name := binary.LittleEndian.AppendUint16(nil, uint16(id))
		if _, err := r.file.WriteAt(name, int64(r.headerSize+2*free)); err != nil {
			return err
		}
		r.ids[free] = id
	}
	return nil
}

// numbers lists the measurements of a sample that have a number.
func numbers(s *procstats.Sample) (ids []procstats.ID) {
	for _, reading := range s.Task {
		if _, ok := reading.Number(); ok {
			ids = append(ids, reading.ID())
		}
	}
	return ids
}

// create makes the file with a column for each measurement, some spare ones, and room for so many processes.
func (r *Ring) create(ids []procstats.ID, rows int) error {
	if len(ids)+spare > maxColumns {
		return fmt.Errorf("write history: %d measurements are too many", len(ids))
	}
	r.ids, r.rows = append(ids, make([]procstats.ID, spare)...), rows
	head := binary.LittleEndian.AppendUint32([]byte(magic), uint32(r.slots))
	head = binary.LittleEndian.AppendUint16(head, uint16(len(r.ids)))
	head = binary.LittleEndian.AppendUint16(head, uint16(r.rows))
	head = binary.LittleEndian.AppendUint64(head, r.imported)
	for _, id := range r.ids {
		head = binary.LittleEndian.AppendUint16(head, uint16(id))
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o700); err != nil {
		return err
	}
	file, err := r.openFile(r.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(head, 0); err != nil {
		// Without its head it would be in the way of the next try.
		return errors.Join(err, file.Close(), os.Remove(r.path))
	}
	r.file = file
	return nil
}

// Rest closes the file and forgets what was read of it. The next call of a method opens it again.
func (r *Ring) Rest() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.flush(), r.file.Close())
	r.reset()
	r.opened = false
	return err
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

func setSequence(slot []byte, n uint64) { binary.LittleEndian.PutUint64(slot, n) }
func sequenceOf(slot []byte) uint64     { return binary.LittleEndian.Uint64(slot) }
func putTime(b []byte, t time.Time)     { binary.LittleEndian.PutUint64(b, uint64(t.UnixNano())) }
func timeAt(b []byte) time.Time         { return time.Unix(0, int64(binary.LittleEndian.Uint64(b))) }
func timeOf(slot []byte) time.Time      { return timeAt(slot[atWall:]) }
func firstOf(slot []byte) time.Time     { return timeAt(slot[atFirst:]) }
func monoOf(slot []byte) time.Duration {
	return time.Duration(binary.LittleEndian.Uint64(slot[atMono:]))
}
func runOf(slot []byte) int { return int(binary.LittleEndian.Uint32(slot[atRun:])) }
func gapOf(slot []byte) Gap { return Gap(slot[atKind]) }

func stampOf(slot []byte) procstats.Stamp {
	return procstats.Stamp{Mono: monoOf(slot), Wall: timeOf(slot)}
}

// numberAt is a column of a slot; NaN if it was not measured.
func numberAt(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
