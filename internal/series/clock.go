// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Clock relates the clocks of this boot of the machine.
type Clock struct {
	// Boot identifies the boot; 0 is unknown.
	Boot uint32
	// Suspended returns how long the machine was suspended in this boot, which the monotonic clock leaves out; nil for
	// not at all.
	Suspended func() time.Duration
}

// origin is the wall clock at the boot, in ns, as the wall clock is set now. A change of it is a step of the wall
// clock.
func (c Clock) origin(at procstats.Stamp) int64 {
	if c.Boot == 0 {
		return 0
	}
	origin := at.Wall.Add(-at.Mono)
	if c.Suspended != nil {
		origin = origin.Add(-c.Suspended())
	}
	return origin.UnixNano()
}

// boot is a part of a ring whose readings were taken in one boot of the machine. The clock that starts at the boot
// gives their order and distances, and the newest of them their wall times. So a step of the wall clock neither hides
// a reading nor puts it out of order.
type boot struct {
	id uint32 // 0 if it is unknown: origins are 0 then, and wall times are as they were read
	// newest is the sequence of its newest slot, and origin the wall clock at the boot as of then.
	newest uint64
	origin int64
	// first and last are when its first and last reading were taken, in ns since origin.
	first, last int64
	// aligned is origin, or earlier so that the readings precede those of the next boot.
	aligned int64
}

// originOf returns the wall clock at the boot of a slot.
func (r *Ring) originOf(slot []byte) int64 {
	if r.slotHead <= atOrigin {
		return 0 // of a version that did not store it
	}
	return int64(binary.LittleEndian.Uint64(slot[atOrigin:]))
}

// observe notes the boot of a slot that follows those observed before.
func (r *Ring) observe(slot []byte) {
	origin := r.originOf(slot)
	b := boot{
		id: binary.LittleEndian.Uint32(slot[atBoot:]), newest: sequenceOf(slot), origin: origin,
		first: firstOf(slot).UnixNano() - origin, last: timeOf(slot).UnixNano() - origin,
	}
	if n := len(r.boots); n > 0 && r.boots[n-1].id == b.id {
		b.first = r.boots[n-1].first
		r.boots[n-1] = b
		return
	}
	r.boots = append(r.boots, b)
}

// align computes the wall times of all boots from the newest one back.
func (r *Ring) align() {
	oldest := r.oldest()
	r.boots = slices.DeleteFunc(r.boots, func(b boot) bool { return b.newest < oldest })
	next := int64(math.MaxInt64)
	for i := range slices.Backward(r.boots) {
		b := &r.boots[i]
		b.aligned = min(b.origin, next-b.last)
		next = b.aligned + b.first
	}
}

// leastStep is the smallest step of the wall clock that is corrected: below it, the two clocks were read at two
// moments.
const leastStep = 10 * time.Millisecond

// correct gives a slot the wall times that follow from the newest slot of its boot.
func (r *Ring) correct(slot []byte) {
	i, _ := slices.BinarySearchFunc(r.boots, sequenceOf(slot), func(b boot, sequence uint64) int {
		return cmp.Compare(b.newest, sequence)
	})
	if i == len(r.boots) {
		return
	}
	shift := time.Duration(r.boots[i].aligned - r.originOf(slot))
	if shift.Abs() < leastStep {
		return
	}
	putTime(slot[atWall:], timeOf(slot).Add(shift))
	putTime(slot[atFirst:], firstOf(slot).Add(shift))
}
