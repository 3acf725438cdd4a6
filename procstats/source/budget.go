// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"time"
)

// smapsLimits bounds what reading smaps_rollup costs: the kernel walks every page table of a process for it. The zero
// value stands for the defaults.
type smapsLimits struct {
	// Every is the least time between two readings; 0 means a thousand times as long as the last one took, less for
	// the first three, at most 10 s. Samples in between repeat the last one, with its stamp.
	Every time.Duration
	// Budget ends a reading; what was not reached by then is skipped. 0 means 20 ms. One process can overrun it.
	Budget time.Duration
	// MaxRSS is the resident memory in bytes above which a process is skipped; 0 means 8 GiB.
	MaxRSS int64
}

func (l smapsLimits) withDefaults() smapsLimits {
	return smapsLimits{
		Every:  l.Every,
		Budget: cmp.Or(l.Budget, 20*time.Millisecond),
		MaxRSS: cmp.Or(l.MaxRSS, 8<<30),
	}
}

// pause is the time from the beginning of a reading, which took some time, to the next. The first ones follow sooner: a
// task that has just started is not what it will be.
func (l smapsLimits) pause(took time.Duration, readings int) time.Duration {
	const most = 10 * time.Second
	if l.Every > 0 {
		return l.Every
	}
	times := [...]int{20, 80, 320, 1000}
	return min(took*time.Duration(times[min(readings, len(times))-1]), most)
}

// DiskLimits bounds what the disk source costs. The zero value stands for the defaults.
type DiskLimits struct {
	// Every is the least time between the end of a walk and the start of the next; 0 means 30 s.
	Every time.Duration
	// Budget ends the part of a walk that is done in one collection; the next one continues there. 0 means 10 ms.
	Budget time.Duration
}

func (l DiskLimits) withDefaults() DiskLimits {
	return DiskLimits{Every: cmp.Or(l.Every, 30*time.Second), Budget: cmp.Or(l.Budget, 10*time.Millisecond)}
}
