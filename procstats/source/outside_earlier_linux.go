// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

// countedEarlier is what an earlier reader has counted of the processes that this one may find again: each counts once. A process
// is known again by its row. If not all had rows, any may be the one, because the counts must not be too high.
type countedEarlier struct {
	used    map[procstats.ProcessID]usedEarlier // by the processes that had rows; nil if nothing was counted
	omitted bool                                // others had none
	// left and joined are its counts, less those that were found again. Which of them have ended it does not say.
	left   leftCounts
	joined int64
}

// usedEarlier is what a process had used of the CPU, since it joined if it did.
type usedEarlier struct{ cpu, children time.Duration }

// has reports whether a process is one of the n that were counted, and takes it out of them.
func (e *countedEarlier) has(id procstats.ProcessID, n *int64) bool {
	if _, known := e.used[id]; *n == 0 || !known && !e.omitted {
		return false
	}
	*n--
	return true
}

// continueFrom makes the counts at least those of an earlier reader.
func (o *outsiders) continueFrom(earlier *procstats.Sample) {
	number := func(id procstats.ID) int64 {
		n, _ := earlier.Task.Number(id)
		return int64(n)
	}
	e := &o.earlier
	*e = countedEarlier{omitted: earlier.Omitted > 0, joined: number(procstats.TreeJoined)}
	for i, id := range leftIDs {
		e.left[i] = number(id)
		o.left[i] = max(o.left[i], e.left[i])
	}
	o.joined = max(o.joined, e.joined)
	o.cpu = max(o.cpu, duration(earlier.Task, procstats.TreeOutsideCPU))
	if e.left == (leftCounts{}) && e.joined == 0 {
		return // as of most tasks
	}
	e.used = make(map[procstats.ProcessID]usedEarlier, len(earlier.Processes))
	for i := range earlier.Processes {
		row := &earlier.Processes[i]
		e.used[row.ProcessID] = usedEarlier{
			cpu: duration(row.Readings, procstats.ProcessCPU), children: duration(row.Readings, procstats.ProcessChildrenCPU),
		}
	}
}
