// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tachograph/tacho/errlist"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// Measured is what is measured of tasks; the zero value sets nothing.
type Measured struct {
	// Selection is empty if it is not set.
	Selection procstats.Selection
	// Disk adds the disk usage to the selection.
	Disk bool
	// DiskInterval is the least time between two walks of a task's directory, DiskBudget how long a walk may take of one
	// collection; 0 if not set.
	DiskInterval, DiskBudget time.Duration
}

// Bounds of a disk block: a walk makes a collection late, and takes CPU time that is not the task's.
const (
	minDiskInterval, maxDiskInterval = time.Second, 24 * time.Hour
	minDiskBudget, maxDiskBudget     = time.Millisecond, 100 * time.Millisecond
)

// or returns what is measured with what is not set taken from other.
func (m Measured) or(other Measured) Measured {
	if m.Selection.Empty() {
		m.Selection, m.Disk = other.Selection, m.Disk || other.Disk
	}
	m.DiskInterval = cmp.Or(m.DiskInterval, other.DiskInterval)
	m.DiskBudget = cmp.Or(m.DiskBudget, other.DiskBudget)
	return m
}

// request says to an executor what to measure.
func (m Measured) request(r *proto.LaunchRequest) {
	r.DiskIntervalNs, r.DiskBudgetNs = int64(m.DiskInterval), int64(m.DiskBudget)
	selection := m.Selection
	if m.Disk {
		selection = selection.Union(procstats.Select(procstats.DiskUsage, procstats.DiskFiles))
	}
	for _, id := range selection.IDs() {
		r.Selection = append(r.Selection, uint32(id))
	}
}

type rawDisk struct {
	Interval *string `codec:"interval" cty:"interval"`
	Budget   *string `codec:"budget" cty:"budget"`
}

// measured reads the keys measurements and disk, which a plugin's config block and a task's have in common.
func measured(words *string, disk *rawDisk) (Measured, error) {
	var m Measured
	var errs [3]error
	if words != nil {
		m.Selection, errs[0] = selectionOf(*words)
	}
	if disk != nil {
		m.Disk = true
		m.DiskInterval, errs[1] = duration("disk: interval", disk.Interval, minDiskInterval, maxDiskInterval)
		m.DiskBudget, errs[2] = duration("disk: budget", disk.Budget, minDiskBudget, maxDiskBudget)
	}
	return m, errlist.Join(errs[:]...)
}

// selectionOf reads the words that tacho run --measurements takes.
func selectionOf(words string) (procstats.Selection, error) {
	selection, err := procstats.ParseSelection(words)
	if err != nil {
		return procstats.Selection{}, fmt.Errorf("measurements: %w: %w", err, ErrInvalid)
	}
	if selection.Empty() {
		return procstats.Selection{}, fmt.Errorf("measurements %q: selects nothing; leave it out for the default: %w", words, ErrInvalid)
	}
	return selection, nil
}

// duration reads a duration within bounds; 0 if it is not set.
func duration(key string, text *string, least, most time.Duration) (time.Duration, error) {
	if text == nil {
		return 0, nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		return 0, fmt.Errorf("%s %q: must be a duration such as %q: %w", key, *text, least, ErrInvalid)
	}
	if d < least || d > most {
		return 0, fmt.Errorf("%s %q: must be between %s and %s: %w", key, *text, least, strings.TrimSuffix(most.String(), "0m0s"), ErrInvalid)
	}
	return d, nil
}
