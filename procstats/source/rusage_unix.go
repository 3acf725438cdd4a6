// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package source

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Add sums up what the kernel gave for a child; its numbers are as wide as the machine's long.
func (r *Reaped) Add(usage *unix.Rusage) {
	const blockSize = 512
	unit := int64(1024) // of ru_maxrss, getrusage(2)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	user, system := time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
	r.Processes++
	r.User += user
	r.System += system
	r.CPU += user + system
	r.MaxRSS = max(r.MaxRSS, int64(usage.Maxrss)*unit)
	// A child begins with what its parent had, over an exec too, and the kernel's counts are not exact to the page.
	var own unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil && usage.Maxrss > own.Maxrss+own.Maxrss/8 {
		r.PeakRSS = max(r.PeakRSS, int64(usage.Maxrss)*unit)
	}
	r.Minflt += int64(usage.Minflt)
	r.Majflt += int64(usage.Majflt)
	r.Nvcsw += int64(usage.Nvcsw)
	r.Nivcsw += int64(usage.Nivcsw)
	r.Inblock += int64(usage.Inblock) * blockSize
	r.Oublock += int64(usage.Oublock) * blockSize
}
