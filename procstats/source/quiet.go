// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// watched is how many files tell of a quiet task that it is: CPU time, memory, and three of pressure.
const watched = 5

// Quiet tells whether a task uses no CPU time and no memory and waits for nothing. Only a whole collection reads the
// pressure of memory and storage: such waits begin only while a thread runs.
type Quiet struct {
	readers []*cgroupReader
}

// Watch prepares a Quiet over the sources of a collector; nil if they do not read what tells it, as in kernels without
// PSI.
func (c *Collector) Watch() *Quiet {
	q, n := &Quiet{}, 0
	for _, r := range c.cgroups {
		n += r.watch()
		q.readers = append(q.readers, r)
	}
	if n != watched {
		return nil
	}
	return q
}

// Moved reports whether the last collection found that the task has moved since the one before.
func (q *Quiet) Moved() bool {
	for _, r := range q.readers {
		if r.moved() {
			return true
		}
	}
	return false
}

// Again returns the last sample for now if the task has not moved since, and nil if it has. The sample shares its
// readings with last.
func (q *Quiet) Again(last *procstats.Sample) *procstats.Sample {
	now := kernel.Now()
	for _, r := range q.readers {
		r.reread()
	}
	if q.Moved() {
		return nil
	}
	again := *last
	again.Stamp, again.Checked = now, now
	return &again
}
