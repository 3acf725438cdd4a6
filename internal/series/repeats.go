// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Most readings of a task that sleeps equal the one before, a second later. They share one slot, which has the time
// of the last of them, the time of the first, and their number. Equal steps of time separate them again, so only
// readings at about equal distances share a slot.

// writeInterval is how long the last readings of a slot may be in memory only, until they are asked for.
const writeInterval = 10 * time.Second

// agingColumn is the one measurement that grows with the time while nothing else does.
const agingColumn = procstats.HeadlineProcessesAge

// repeatsOf is how many readings a slot stands for, at most so many; 1 for one that says what cannot be.
func repeatsOf(slot []byte, most int) int {
	n := int(binary.LittleEndian.Uint32(slot[atRepeats:]))
	if n < 1 || n > most || firstOf(slot).After(timeOf(slot)) {
		return 1
	}
	return n
}

// repeats counts a reading that equals the newest, without writing it; false if it is another.
func (r *Ring) repeats(s *procstats.Sample, run int) bool {
	if !r.follows(s.Stamp, run) || !r.sameNumbers(s, s.Wall.Sub(r.newest.Wall)) ||
		!sameRows(r.column(r.buffer, len(r.ids)), s.Processes) {
		return false
	}
	r.extend(s.Stamp, bitsOf(s.Task, agingColumn))
	return true
}

// follows reports whether a reading at a time can share the newest slot if its numbers do.
func (r *Ring) follows(at procstats.Stamp, run int) bool {
	if !r.isExtensible(run) {
		return false
	}
	n, last := repeatsOf(r.buffer, r.slots), stampOf(r.buffer)
	step := at.Wall.Sub(last.Wall)
	usual := at.Mono - last.Mono // another one if the clock was set
	if n > 1 {
		usual = last.Wall.Sub(firstOf(r.buffer)) / time.Duration(n-1)
	}
	return n < r.slots && evenStep(step, usual)
}

// isExtensible reports whether the newest slot has readings of a start of the task.
func (r *Ring) isExtensible(run int) bool {
	return r.extensible && len(r.buffer) == r.slotSize() && runOf(r.buffer) == run
}

// evenStep reports whether a step of time is about as long as those before.
func evenStep(step, usual time.Duration) bool { return step > 0 && (step-usual).Abs() <= usual/20 }

// extend counts one more reading in the newest slot; age is the new value of its column that ages.
func (r *Ring) extend(at procstats.Stamp, age uint64) {
	slot := r.buffer
	putTime(slot[atWall:], at.Wall)
	binary.LittleEndian.PutUint64(slot[atMono:], uint64(at.Mono))
	binary.LittleEndian.PutUint32(slot[atRepeats:], uint32(repeatsOf(slot, r.slots)+1))
	if i := r.index(agingColumn); i >= 0 {
		binary.LittleEndian.PutUint64(r.column(slot, i), age)
	}
	r.boots[len(r.boots)-1].last = at.Wall.UnixNano() - r.originOf(slot)
	r.newest, r.unwritten = at, true
}

// again are readings that have the numbers of the one before them, except for those that age.
type again struct {
	n int
	// before is when the reading before them was taken, and last when the last of them was: the steps between are
	// equal.
	before, last procstats.Stamp
	// age is the column that ages in the last of them.
	age procstats.Reading
}

// reading returns when one of them was taken, and its column that ages.
func (a *again) reading(i int) (at procstats.Stamp, age uint64) {
	earlier := a.last.Wall.Sub(a.before.Wall) / time.Duration(a.n) * time.Duration(a.n-1-i)
	at = procstats.Stamp{Mono: a.last.Mono - earlier, Wall: a.last.Wall.Add(-earlier)}
	seconds, ok := a.age.Number()
	if !ok {
		return at, absent
	}
	return at, math.Float64bits(max(0, seconds-earlier.Seconds()))
}

// errNothingBefore says that the reading before those that repeat it was not written.
var errNothingBefore = errors.New("the reading before was not written")

// Again stores readings that have the numbers of the newest.
func (r *Ring) Again(a again, run int) error {
	if err := r.openToWrite(); err != nil {
		return err
	}
	for i := range a.n {
		if !r.isExtensible(run) {
			return fmt.Errorf("write history: %w", errNothingBefore)
		}
		at, age := a.reading(i)
		if r.follows(at, run) {
			r.extend(at, age)
			continue
		}
		if err := r.flush(); err != nil {
			return err
		}
		slot := r.slot(at, run, NoGap) // in the memory of the slot before, with its numbers
		if k := r.index(agingColumn); k >= 0 {
			binary.LittleEndian.PutUint64(r.column(slot, k), age)
		}
		err := r.write(slot)
		if r.extensible = err == nil; err != nil {
			return err
		}
	}
	return r.flushOld()
}

// flushOld is flush if the newest slot has readings that are in memory only for too long.
func (r *Ring) flushOld() error {
	if r.newest.Mono-r.written < writeInterval {
		return nil
	}
	return r.flush()
}

// sameNumbers reports whether a sample has the numbers of the newest slot, a step of time later.
func (r *Ring) sameNumbers(s *procstats.Sample, step time.Duration) bool {
	for i, id := range r.ids {
		before := binary.LittleEndian.Uint64(r.column(r.buffer, i))
		now := bitsOf(s.Task, id)
		if id == agingColumn && before != absent && now != absent {
			grown := math.Float64frombits(now) - math.Float64frombits(before)
			if math.Abs(grown-step.Seconds()) > step.Seconds()/20 {
				return false
			}
		} else if now != before {
			return false
		}
	}
	return true
}

// sameRows reports whether a slot has the processes of a sample.
func sameRows(room []byte, rows []procstats.ProcessRow) bool {
	for i := range rows {
		if len(room) < rowSize {
			break
		}
		var own [rowSize]byte
		putRows(own[:], rows[i:i+1])
		if string(own[:]) != string(room[:rowSize]) {
			return false
		}
		room = room[rowSize:]
	}
	return len(room) < rowSize || binary.LittleEndian.Uint32(room) == 0
}

// flush writes the newest slot if readings of it are in memory only: all of it, as a column may have aged.
func (r *Ring) flush() error {
	if !r.unwritten || r.file == nil {
		return nil
	}
	if _, err := r.file.WriteAt(r.buffer, r.slotOffset(r.sequence)); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	r.unwritten, r.written = false, r.newest.Mono
	return nil
}

// expand calls f with a slot for each reading that a slot stands for, within the times of a query.
func (r *Ring) expand(slot []byte, q Query, f func(slot []byte)) {
	n := repeatsOf(slot, r.slots)
	one := slot
	if n > 1 {
		one = append([]byte(nil), slot...)
	}
	for i := range n {
		if n > 1 {
			r.setReading(one, slot, i, n)
		}
		if at := timeOf(one); (q.Since.IsZero() || !at.Before(q.Since)) && (q.Until.IsZero() || !at.After(q.Until)) {
			f(one)
		}
	}
}

// setReading turns a slot into the one of its reading i of n.
func (r *Ring) setReading(one, slot []byte, i, n int) {
	last, first := timeOf(slot), firstOf(slot)
	earlier := last.Sub(first) / time.Duration(n-1) * time.Duration(n-1-i)
	if i == 0 {
		earlier = last.Sub(first)
	}
	putTime(one[atWall:], last.Add(-earlier))
	putTime(one[atFirst:], last.Add(-earlier))
	binary.LittleEndian.PutUint64(one[atMono:], uint64(monoOf(slot)-earlier))
	binary.LittleEndian.PutUint32(one[atRepeats:], 1)
	if k := r.index(agingColumn); k >= 0 {
		if age := numberAt(r.column(slot, k)); !math.IsNaN(age) {
			binary.LittleEndian.PutUint64(r.column(one, k), math.Float64bits(max(0, age-earlier.Seconds())))
		}
	}
}
