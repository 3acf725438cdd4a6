// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"encoding/binary"
	"errors"
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

// evenStep reports whether a step of time is about as long as those before.
func evenStep(step, usual time.Duration) bool { return step > 0 && (step-usual).Abs() <= usual/20 }

// again are readings that have the numbers of the one before them, except for those that age.
type again struct {
	n int
	// before is when the reading before them was taken, and last when the last of them was: the steps between are
	// equal.
	before, last procstats.Stamp
	// age is the column that ages in the last of them.
	age procstats.Reading
}

// step is the time between two of them.
func (a *again) step() time.Duration { return a.last.Wall.Sub(a.before.Wall) / time.Duration(a.n) }

// putAge puts the column that ages in the last of them into a slot.
func (a *again) putAge(r *Ring, slot []byte) {
	bits := uint64(absent)
	if seconds, ok := a.age.Number(); ok {
		bits = math.Float64bits(seconds)
	}
	if i := r.index(agingColumn); i >= 0 {
		binary.LittleEndian.PutUint64(r.column(slot, i), bits)
	}
}

// errNothingBefore says that the reading before those that repeat it was not written.
var errNothingBefore = errors.New("the reading before was not written")

// Again stores readings that have the numbers of the newest: in its slot, or in one of their own.
func (r *Ring) Again(a again, run int) error {
	if err := r.openToWrite(); err != nil {
		return err
	}
	slot := r.buffer
	if !r.extensible || len(slot) != r.slotSize() || runOf(slot) != run {
		return errNothingBefore
	}
	n, usual := repeatsOf(slot, r.slots), a.step()
	if n > 1 {
		usual = timeOf(slot).Sub(firstOf(slot)) / time.Duration(n-1)
	}
	if n+a.n <= r.slots && evenStep(a.step(), usual) {
		putTime(slot[atWall:], a.last.Wall)
		binary.LittleEndian.PutUint64(slot[atMono:], uint64(a.last.Mono))
		binary.LittleEndian.PutUint32(slot[atRepeats:], uint32(n+a.n))
		a.putAge(r, slot)
		r.boots[len(r.boots)-1].last = a.last.Wall.UnixNano() - r.originOf(slot)
		r.newest, r.unwritten = a.last, true
		return r.flushOld()
	}
	if err := r.flush(); err != nil {
		return err
	}
	slot = r.slot(a.last, run, NoGap) // in the memory of the slot before, with its numbers
	n = min(a.n, r.slots)
	binary.LittleEndian.PutUint32(slot[atRepeats:], uint32(n))
	putTime(slot[atFirst:], a.last.Wall.Add(-a.step()*time.Duration(n-1)))
	a.putAge(r, slot)
	err := r.write(slot)
	r.extensible = err == nil
	return err
}

// flushOld is flush if the newest slot has readings that are in memory only for too long.
func (r *Ring) flushOld() error {
	if r.newest.Mono-r.written < writeInterval {
		return nil
	}
	return r.flush()
}

// flush writes the newest slot if readings of it are in memory only: all of it, as a column may have aged.
func (r *Ring) flush() error {
	if !r.unwritten || r.file == nil {
		return nil
	}
	_, err := r.file.WriteAt(r.buffer, r.slotOffset(r.sequence))
	if err == nil {
		r.unwritten, r.written = false, r.newest.Mono
	}
	return err
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
