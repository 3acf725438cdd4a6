// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"cmp"
	"slices"

	"github.com/tachograph/tacho/procstats"
)

// Counters are the most that each counter of one start of a task was read at, ordered by id. Every task has some sixty: a map of them
// takes more than twice the memory.
type Counters []Counter

// Counter is one of them, in the unit of its row.
type Counter struct {
	ID    procstats.ID
	Value float64
}

// Number returns the value of a counter; ok is false where it was never read.
func (cs Counters) Number(id procstats.ID) (value float64, ok bool) {
	i, found := cs.search(id)
	if !found {
		return 0, false
	}
	return cs[i].Value, true
}

// Raise puts a value, unless there is a larger one.
func (cs *Counters) Raise(id procstats.ID, value float64) {
	i, found := cs.search(id)
	if !found {
		*cs = slices.Insert(*cs, i, Counter{id, value})
		return
	}
	(*cs)[i].Value = max((*cs)[i].Value, value)
}

func (cs Counters) search(id procstats.ID) (int, bool) {
	return slices.BinarySearchFunc(cs, id, func(c Counter, id procstats.ID) int { return cmp.Compare(c.ID, id) })
}
