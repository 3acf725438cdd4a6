// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Points returns what a query selects, oldest first.
func (r *Ring) Points(q Query) ([]Point, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := r.flush(); err != nil {
		return nil, err
	}
	slots, err := r.read(q)
	if err != nil {
		return nil, err
	}
	points := make([]Point, 0, len(slots))
	for _, slot := range slots {
		points = append(points, r.point(slot, q.Processes))
	}
	return points, nil
}

// read returns the slots of the points that a query selects.
func (r *Ring) read(q Query) (slots [][]byte, err error) {
	if r.file == nil {
		return nil, nil
	}
	first, last, err := r.bounds(q)
	if err != nil {
		return nil, err
	}
	step, err := r.step(q, first, last)
	if err != nil {
		return nil, err
	}
	var held []byte // the slot before, of which its follower says whether it is kept
	err = r.readings(first, last, q, func(slot []byte) {
		if len(held) > 0 && !thinned(held, slot, step) {
			slots = append(slots, bytes.Clone(held))
		}
		held = append(held[:0], slot...)
	})
	if err == nil && len(held) > 0 {
		slots = append(slots, held)
	}
	return slots, err
}

// readings calls f with a slot for each reading of the slots from first to last that is within the times of a query.
func (r *Ring) readings(first, last uint64, q Query, f func(slot []byte)) error {
	return r.between(first, last, func(slot []byte) { r.expand(slot, q, f) })
}

// step is how long the steps have to be for points from first to last, of which a query wants only so many.
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

// thinned reports whether a point is left out because the one after it stands for the same step: the last reading of
// each is kept, which begins at a whole multiple of the step, and every gap.
func thinned(slot, next []byte, step time.Duration) bool {
	return step > 0 && gapOf(slot) == NoGap && gapOf(next) == NoGap && runOf(slot) == runOf(next) &&
		timeOf(slot).Truncate(step).Equal(timeOf(next).Truncate(step))
}

// oldest is the sequence of the oldest point that there may be.
func (r *Ring) oldest() uint64 {
	if r.sequence < uint64(r.slots) {
		return 1
	}
	return r.sequence - uint64(r.slots) + 1
}

// bounds are the sequences of the first and the last slot that have readings within the times of a query; last is before first
// where there is none. Times are in the order of the sequences, so that most slots need not be looked at.
func (r *Ring) bounds(q Query) (first, last uint64, err error) {
	first, last = r.sequence+1, r.sequence
	// As many readings as there are slots, also where one has several: a task that sleeps has no longer history than others.
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

// search returns the first sequence from low on and before high whose slot is as wanted, and high where there is none.
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
// sequence; high where there is none before that.
func (r *Ring) slotFrom(sequence, high uint64, slot []byte) (uint64, error) {
	for ; sequence < high; sequence++ {
		ok, err := r.readSlot(sequence, slot)
		if ok || err != nil {
			return sequence, err
		}
	}
	return high, nil
}

// readSlot reads into slot as much as it takes of a point's; false where another is there: it was torn by a crash of
// the machine.
func (r *Ring) readSlot(sequence uint64, slot []byte) (bool, error) {
	_, err := r.file.ReadAt(slot, r.slotOffset(int(sequence%uint64(r.slots))))
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read history: %w", err)
	}
	return binary.LittleEndian.Uint64(slot) == sequence, nil
}

// pieceSlots bounds what is read at once.
const pieceSlots = 1024

// between calls f with the slots of the points from first to last, in their order.
func (r *Ring) between(first, last uint64, f func(slot []byte)) error {
	size := uint64(r.slotSize())
	for first <= last {
		// In pieces: not all at once, and not over where the ring is closed.
		index := first % uint64(r.slots)
		count := min(last-first+1, uint64(r.slots)-index, pieceSlots)
		piece := make([]byte, count*size)
		n, err := r.file.ReadAt(piece, r.slotOffset(int(index)))
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read history: %w", err)
		}
		for i := range min(count, uint64(n)/size) {
			if slot := piece[i*size : (i+1)*size]; binary.LittleEndian.Uint64(slot) == first+i {
				f(slot)
			}
		}
		first += count
	}
	return nil
}

func timeOf(slot []byte) time.Time { return time.Unix(0, int64(binary.LittleEndian.Uint64(slot[8:]))) }
func runOf(slot []byte) int        { return int(binary.LittleEndian.Uint32(slot[24:])) }
func gapOf(slot []byte) Gap        { return Gap(slot[28]) }

// point is the point in a slot, with its processes if they are asked for.
func (r *Ring) point(slot []byte, processes bool) Point {
	p := pointOf(r.ids, slot)
	if processes && p.Gap == NoGap {
		p.Processes = rowsOf(slot[slotHead+8*len(r.ids):])
	}
	return p
}

// pointOf is the point in a slot whose columns are of ids.
func pointOf(ids []procstats.ID, slot []byte) Point {
	p := Point{
		Stamp: procstats.Stamp{Mono: time.Duration(binary.LittleEndian.Uint64(slot[16:])), Wall: timeOf(slot)},
		Run:   runOf(slot), Gap: gapOf(slot),
	}
	if p.Gap != NoGap {
		return p
	}
	p.Values = make(map[procstats.ID]float64, len(ids))
	for i, id := range ids {
		v := math.Float64frombits(binary.LittleEndian.Uint64(slot[slotHead+8*i:]))
		if id != 0 && !math.IsNaN(v) {
			p.Values[id] = v
		}
	}
	return p
}

// At returns the reading nearest to the time of a query, of two that are as near the earlier one; ok is false where there
// is none.
func (r *Ring) At(q Query) (nearest Point, ok bool, err error) {
	at := q.Nearest
	if err := r.open(); err != nil || r.file == nil {
		return nearest, false, err
	}
	if err := r.flush(); err != nil {
		return nearest, false, err
	}
	behind, err := r.search(r.oldest(), r.sequence+1, func(head []byte) bool { return !timeOf(head).Before(at) })
	if err != nil {
		return nearest, false, err
	}
	slot := make([]byte, r.slotSize())
	for sequence := behind - 1; sequence >= r.oldest() && !ok; sequence-- {
		if nearest, ok, err = r.reading(sequence, slot, q); err != nil {
			return nearest, false, err
		}
	}
	for sequence := behind; sequence <= r.sequence; sequence++ {
		p, found, err := r.reading(sequence, slot, q)
		switch {
		case err != nil:
			return nearest, false, err
		case !found:
			continue
		case !ok || p.Wall.Sub(at) < at.Sub(nearest.Wall):
			nearest = p
		}
		return nearest, true, nil
	}
	return nearest, ok, nil
}

// reading returns the reading of a slot that is nearest to the time of a query; ok is false for a gap.
func (r *Ring) reading(sequence uint64, slot []byte, q Query) (p Point, ok bool, err error) {
	whole, err := r.readSlot(sequence, slot)
	if !whole || err != nil {
		return p, false, err
	}
	r.nearest(slot, q.Nearest)
	p = r.point(slot, q.Processes)
	return p, p.Gap == NoGap, nil
}
