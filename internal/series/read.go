// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Query selects points.
type Query struct {
	// Nearest selects the one reading nearest to a time, the earlier one of two at the same distance. The other
	// conditions are ignored then. Zero selects by them.
	Nearest time.Time
	// Since and Until bound the time; zero for no bound.
	Since, Until time.Time
	// Step thins out: at most one reading in each step, its last; 0 for all. Gaps stay.
	Step time.Duration
	// Most is about how many readings are wanted; 0 is all. If there are more, the step is as long as that needs.
	Most int
	// Highest are measurements whose highest reading in a step is kept as well, as [procstats.Max].
	Highest []procstats.ID
	// Processes asks for the processes of the points.
	Processes bool
}

// Points returns the selected points, oldest first.
func (r *Ring) Points(q Query) (points []Point, err error) {
	if err := r.openToRead(); err != nil || r.file == nil {
		return nil, err
	}
	if !q.Nearest.IsZero() {
		nearest, err := r.nearest(q.Nearest)
		if nearest != nil {
			points = []Point{r.point(nearest, q.Processes)}
		}
		return points, err
	}
	first, last, err := r.bounds(q)
	if err != nil {
		return nil, err
	}
	step, err := r.step(q, first, last)
	if err != nil {
		return nil, err
	}
	var held []byte // the slot before: its successor decides whether it stays
	high := make(map[procstats.ID]float64, len(q.Highest))
	emit := func() {
		if len(held) == 0 {
			return
		}
		p := r.point(held, q.Processes)
		if len(high) > 0 {
			p.Kept = make(map[Column]float64, len(high))
		}
		for id, value := range high {
			p.Kept[Column{id, procstats.Max}] = value
		}
		clear(high)
		points = append(points, p)
	}
	err = r.readings(first, last, q, func(slot []byte) {
		if !thinned(held, slot, step) {
			emit()
		}
		for _, id := range q.Highest {
			r.raise(high, slot, id)
		}
		held = append(held[:0], slot...)
	})
	emit()
	return points, err
}

// raise raises the highest reading of a measurement to the one in a slot.
func (r *Ring) raise(high map[procstats.ID]float64, slot []byte, id procstats.ID) {
	column := r.index(id)
	if column < 0 || gapOf(slot) != NoGap {
		return
	}
	value := numberAt(r.column(slot, column))
	if before, ok := high[id]; !math.IsNaN(value) && (!ok || value > before) {
		high[id] = value
	}
}

// openToRead opens the file and writes what only memory has.
func (r *Ring) openToRead() error {
	if err := r.open(); err != nil {
		return err
	}
	r.align()
	return r.flush()
}

// readings calls f with a slot for each reading of the slots from first to last that is within the times of a query.
func (r *Ring) readings(first, last uint64, q Query, f func(slot []byte)) error {
	return r.between(first, last, func(slot []byte) {
		r.correct(slot)
		r.expand(slot, q, f)
	})
}

// step is how long the steps have to be for points from first to last if a query wants only so many.
func (r *Ring) step(q Query, first, last uint64) (time.Duration, error) {
	if q.Most <= 0 || last < first {
		return q.Step, nil
	}
	n, begin, end := 0, time.Time{}, time.Time{}
	err := r.readings(first, last, q, func(slot []byte) {
		if end = timeOf(slot); n == 0 {
			begin = end
		}
		n++
	})
	if err != nil || n <= q.Most {
		return q.Step, err
	}
	return max(q.Step, end.Sub(begin)/time.Duration(q.Most)+1), nil
}

// thinned reports whether a point is omitted because the one after it stands for the same step, which begins at a whole
// multiple: of each step the last reading stays, and every gap.
func thinned(slot, next []byte, step time.Duration) bool {
	return step > 0 && len(slot) > 0 && gapOf(slot) == NoGap && gapOf(next) == NoGap && runOf(slot) == runOf(next) &&
		timeOf(slot).Truncate(step).Equal(timeOf(next).Truncate(step))
}

// oldest is the sequence of the oldest point that there may be.
func (r *Ring) oldest() uint64 {
	if r.sequence < uint64(r.slots) {
		return 1
	}
	return r.sequence - uint64(r.slots) + 1
}

// bounds are the sequences of the first and the last slot that have readings within the times of a query; last is
// before first if no slot has. Times are in the order of the sequences, so that most slots need not be read.
func (r *Ring) bounds(q Query) (first, last uint64, err error) {
	first, last = r.sequence+1, r.sequence
	// As many readings as there are slots, also if one has several: a task that sleeps has no longer history than
	// others.
	head := make([]byte, slotHead)
	for n := 0; n < r.slots && first > r.oldest(); {
		first--
		whole, err := r.readSlot(first, head)
		if err != nil {
			return 0, 0, err
		}
		if whole {
			n += repeatsOf(head, r.slots)
		}
		if whole && timeOf(head).Before(q.Since) {
			break // all before it are as well
		}
	}
	if !q.Since.IsZero() {
		first, err = r.search(first, last+1, func(head []byte) bool { return !timeOf(head).Before(q.Since) })
	}
	if err == nil && !q.Until.IsZero() {
		last, err = r.search(first, last+1, func(head []byte) bool { return firstOf(head).After(q.Until) })
		last--
	}
	return first, last, err
}

// search returns the first sequence from low on and before high whose slot is as wanted, or high.
func (r *Ring) search(low, high uint64, wanted func(head []byte) bool) (uint64, error) {
	head := make([]byte, slotHead)
	for low < high {
		middle := low + (high-low)/2
		found, err := r.slotFrom(middle, high, head)
		if err != nil {
			return 0, err
		}
		if found == high || wanted(head) {
			high = middle
		} else {
			low = found + 1
		}
	}
	return low, nil
}

// slotFrom reads into slot as much as it takes of the first slot from a sequence on that is whole, and returns its
// sequence, or high.
func (r *Ring) slotFrom(sequence, high uint64, slot []byte) (uint64, error) {
	for ; sequence < high; sequence++ {
		ok, err := r.readSlot(sequence, slot)
		if ok || err != nil {
			return sequence, err
		}
	}
	return high, nil
}

// readSlot reads into slot as much as it takes of a point's; false if another is there: it was torn by a crash of the
// machine.
func (r *Ring) readSlot(sequence uint64, slot []byte) (bool, error) {
	_, err := r.file.ReadAt(slot, r.slotOffset(sequence))
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if binary.LittleEndian.Uint64(slot) != sequence {
		return false, nil
	}
	r.correct(slot)
	return true, nil
}

// between calls f with the slots of the points from first to last, in their order.
func (r *Ring) between(first, last uint64, f func(slot []byte)) error {
	for first <= last {
		place := first % uint64(r.slots)
		count := min(last-first+1, uint64(r.slots)-place) // not over where the ring is closed
		err := r.scan(place, count, func(i uint64, slot []byte) {
			if sequenceOf(slot) == first+i {
				f(slot)
			}
		})
		if err != nil {
			return err
		}
		first += count
	}
	return nil
}

// pieceSlots bounds what is read at once.
const pieceSlots = 1024

// scan calls f with the slots from a place in the file on, and the number of each.
func (r *Ring) scan(place, count uint64, f func(i uint64, slot []byte)) error {
	size := uint64(r.slotSize())
	piece := make([]byte, min(count, pieceSlots)*size)
	for first := uint64(0); first < count; first += pieceSlots {
		n, err := r.file.ReadAt(piece[:min(count-first, pieceSlots)*size], r.slotOffset(place+first))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := range uint64(n) / size {
			f(first+i, piece[i*size:(i+1)*size])
		}
	}
	return nil
}

// point is the point in a slot, with its processes if they are asked for.
func (r *Ring) point(slot []byte, processes bool) Point {
	p := Point{Stamp: stampOf(slot), Run: runOf(slot), Gap: gapOf(slot)}
	if p.Gap != NoGap {
		return p
	}
	p.Values = make(map[procstats.ID]float64, len(r.ids))
	for i, id := range r.ids {
		if v := numberAt(r.column(slot, i)); id != 0 && !math.IsNaN(v) {
			p.Values[id] = v
		}
	}
	if processes {
		p.Processes = rowsOf(r.column(slot, len(r.ids)))
	}
	return p
}

// nearest returns the reading nearest to a time, the earlier one of two at the same distance; nil if there is none.
func (r *Ring) nearest(at time.Time) (best []byte, err error) {
	err = r.readings(r.oldest(), r.sequence, Query{}, func(slot []byte) {
		if gapOf(slot) == NoGap && (best == nil || timeOf(slot).Sub(at).Abs() < timeOf(best).Sub(at).Abs()) {
			best = append(best[:0], slot...)
		}
	})
	return best, err
}

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
	if r.closed {
		return fs.ErrClosed
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
	err := r.openToWrite()
	if err == nil {
		err = r.flush()
	}
	if err != nil {
		return err
	}
	slot = r.slot(a.last, run, NoGap) // in the memory of the slot before, with its numbers
	n = min(a.n, r.slots)
	binary.LittleEndian.PutUint32(slot[atRepeats:], uint32(n))
	putTime(slot[atFirst:], a.last.Wall.Add(-a.step()*time.Duration(n-1)))
	a.putAge(r, slot)
	err = r.write(slot)
	r.extensible = err == nil
	return err
}

// flushOld is flush if the newest slot has readings that are in memory only for too long.
func (r *Ring) flushOld() error {
	if r.newest.Mono-r.written < writeInterval {
		return nil
	}
	if err := r.openToWrite(); err != nil {
		return err
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
