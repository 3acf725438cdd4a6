// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import "time"

// punctualSamples is how many samples in a row end an episode of late ones.
const punctualSamples = 10

// backlog counts the samples that came more than an interval late.
type backlog struct {
	late     int64
	episode  bool
	punctual int // samples in a row that were not late, in an episode
}

// observe is called with the time between two samples. It reports whether the second is late, and whether it is the
// first of an episode.
func (b *backlog) observe(between, interval time.Duration) (late, first bool) {
	if between <= 2*interval {
		if b.punctual++; b.punctual >= punctualSamples {
			b.episode = false
		}
		return false, false
	}
	first = !b.episode
	b.late++
	b.episode, b.punctual = true, 0
	return true, first
}
