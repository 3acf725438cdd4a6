// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Points returns what a query selects, oldest first.
func (r *Ring) Points(q Query) ([]Point, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read(q)
}

func (r *Ring) read(q Query) ([]Point, error) {
	type numbered struct {
		sequence uint64
		point    Point
	}
	var all []numbered
	err := r.each(func(slot []byte) {
		sequence := binary.LittleEndian.Uint64(slot)
		// What is older than a round was torn by a crash of the machine, or belongs to nothing.
		if sequence > r.sequence || r.sequence-sequence >= uint64(r.slots) {
			return
		}
		at := time.Unix(0, int64(binary.LittleEndian.Uint64(slot[8:])))
		if !q.Since.IsZero() && at.Before(q.Since) || !q.Until.IsZero() && at.After(q.Until) {
			return
		}
		all = append(all, numbered{sequence, r.point(slot, at)})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.sequence, b.sequence) })
	points := make([]Point, 0, len(all))
	for _, n := range all {
		points = append(points, n.point)
	}
	return thin(points, q.Step), nil
}

func (r *Ring) point(slot []byte, at time.Time) Point {
	p := Point{
		Stamp: procstats.Stamp{Mono: time.Duration(binary.LittleEndian.Uint64(slot[16:])), Wall: at},
		Run:   int(binary.LittleEndian.Uint32(slot[24:])), Gap: Gap(slot[28]),
	}
	if p.Gap != NoGap {
		return p
	}
	p.Values = make(map[procstats.ID]float64, len(r.ids))
	for i, id := range r.ids {
		v := math.Float64frombits(binary.LittleEndian.Uint64(slot[slotHead+8*i:]))
		if id != 0 && !math.IsNaN(v) {
			p.Values[id] = v
		}
	}
	return p
}

// thin keeps the last reading of each step, which begins at a whole multiple of the step, and every gap.
func thin(points []Point, step time.Duration) []Point {
	if step <= 0 {
		return points
	}
	kept := points[:0]
	for i, p := range points {
		last := i+1 == len(points) || points[i+1].Gap != NoGap || points[i+1].Run != p.Run ||
			points[i+1].Wall.Truncate(step) != p.Wall.Truncate(step)
		if p.Gap != NoGap || last {
			kept = append(kept, p)
		}
	}
	return kept
}

// At returns the reading nearest to a time; ok is false where there is none.
func (r *Ring) At(at time.Time) (nearest Point, ok bool, err error) {
	points, err := r.Points(Query{})
	if err != nil {
		return nearest, false, err
	}
	best := time.Duration(math.MaxInt64)
	for _, p := range points {
		if d := p.Wall.Sub(at).Abs(); p.Gap == NoGap && d < best {
			nearest, best, ok = p, d, true
		}
	}
	return nearest, ok, nil
}
