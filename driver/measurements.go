// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// Measured is what is measured of tasks; the zero value sets nothing.
type Measured struct {
	// Selection is empty if it is not set.
	Selection procstats.Selection
	// Disk adds the disk usage to the selection.
	Disk bool
	// Network is NetworkAuto or NetworkOff; empty if it is not set.
	Network string
	// DiskInterval is the least time between two walks of a task's directory, DiskBudget how long a walk may take of one
	// collection; 0 if not set.
	DiskInterval, DiskBudget time.Duration
	// SamplingBudget is the share of one core that sampling a task may take; 0 if not set.
	SamplingBudget float64
}

// Words of the key network.
const (
	// NetworkAuto counts a task's packets while it is sampled, if they are selected and the machine allows it.
	NetworkAuto = "auto"
	// NetworkOff counts none.
	NetworkOff = "off"
)

// Bounds of a disk block: a walk makes a collection late, and takes CPU time that is not the task's.
const (
	minDiskInterval, maxDiskInterval = time.Second, 24 * time.Hour
	minDiskBudget, maxDiskBudget     = time.Millisecond, 100 * time.Millisecond
)

// Bounds of the sampling budget, in percent of one core, as those of tacho run.
const minSamplingBudget, maxSamplingBudget = 0.1, 100

// or returns what is measured with what is not set taken from other.
func (m Measured) or(other Measured) Measured {
	if m.Selection.Empty() {
		m.Selection, m.Disk = other.Selection, m.Disk || other.Disk
	}
	m.Network = cmp.Or(m.Network, other.Network)
	m.DiskInterval = cmp.Or(m.DiskInterval, other.DiskInterval)
	m.DiskBudget = cmp.Or(m.DiskBudget, other.DiskBudget)
	m.SamplingBudget = cmp.Or(m.SamplingBudget, other.SamplingBudget)
	return m
}

// request says to an executor what to measure.
func (m Measured) request(r *proto.LaunchRequest) {
	r.DiskIntervalNs, r.DiskBudgetNs, r.SamplingBudget = int64(m.DiskInterval), int64(m.DiskBudget), m.SamplingBudget
	selection := m.Selection
	if m.Disk {
		selection = selection.Union(procstats.Select(procstats.DiskUsage, procstats.DiskFiles))
	}
	if m.Network == NetworkOff {
		selection = selection.Minus(procstats.SourceSelection(procstats.SourceSkb))
		r.NetworkOff = true
	}
	if selection.Empty() {
		selection = procstats.Select(procstats.ExecutorInterval) // none at all would mean the default
	}
	for _, id := range selection.IDs() {
		r.Selection = append(r.Selection, uint32(id))
	}
}

// selectsPackets reports whether packets are counted of a task that is started so.
func selectsPackets(r *proto.LaunchRequest) bool {
	if len(r.GetSelection()) == 0 {
		return procstats.DefaultSelection().HasSource(procstats.SourceSkb)
	}
	return slices.ContainsFunc(r.GetSelection(), func(id uint32) bool {
		m, _ := procstats.Lookup(procstats.ID(id))
		return m.Source == procstats.SourceSkb
	})
}

// RowLimits say how often which processes of a task are read; the zero value sets nothing.
type RowLimits struct {
	// Interval is the least time between two sets of process rows, unless somebody looks; 0 if not set.
	Interval time.Duration
	// Max is the most rows of a set, 0 for none; nil if not set.
	Max *int
}

const minRowInterval, maxRowInterval = 10 * time.Millisecond, time.Hour

func (l RowLimits) or(other RowLimits) RowLimits {
	return RowLimits{Interval: cmp.Or(l.Interval, other.Interval), Max: cmp.Or(l.Max, other.Max)}
}

// of returns the limits of a task, with what its configuration does not set taken from these. A block that is not valid any more
// sets nothing: the task was started by another build.
func (l RowLimits) of(task *TaskConfig) RowLimits {
	block := task.Block
	if block == nil {
		block, _ = decodeBlock(task.DriverConfig)
	}
	if block == nil {
		return l
	}
	return block.Rows.or(l)
}

type rawRows struct {
	Interval *string `codec:"interval" cty:"interval"`
	Max      *int64  `codec:"max" cty:"max"`
}

func (r *rawRows) limits() (l RowLimits, err error) {
	if r == nil {
		return l, nil
	}
	var errs [2]error
	l.Interval, errs[0] = duration("process_rows: interval", r.Interval, minRowInterval, maxRowInterval)
	if r.Max != nil {
		var most int
		most, errs[1] = within("process_rows: max", *r.Max, 0, 10_000)
		l.Max = &most
	}
	return l, joinMistakes(errs[:]...)
}

type rawDisk struct {
	Interval *string `codec:"interval" cty:"interval"`
	Budget   *string `codec:"budget" cty:"budget"`
}

// measured reads the keys measurements, network, disk and sampling_budget, which a plugin's config block and a task's have in common.
func measured(words, network *string, disk *rawDisk, budget *float64) (Measured, error) {
	var m Measured
	var errs [5]error
	if budget != nil {
		m.SamplingBudget = *budget / 100
		if !(*budget >= minSamplingBudget && *budget <= maxSamplingBudget) { // NaN is not either
			errs[3] = invalid("sampling_budget %v: must be between %v and %v percent of one core",
				*budget, minSamplingBudget, maxSamplingBudget)
		}
	}
	if words != nil {
		m.Selection, errs[0] = selectionOf(*words)
	}
	if network != nil {
		m.Network, errs[4] = oneOf("network", network, NetworkAuto, NetworkOff)
	}
	if disk != nil {
		m.Disk = true
		m.DiskInterval, errs[1] = duration("disk: interval", disk.Interval, minDiskInterval, maxDiskInterval)
		m.DiskBudget, errs[2] = duration("disk: budget", disk.Budget, minDiskBudget, maxDiskBudget)
	}
	return m, joinMistakes(errs[:]...)
}

// selectionOf reads the words that tacho run --measurements takes.
func selectionOf(words string) (procstats.Selection, error) {
	selection, err := procstats.ParseSelection(words)
	if err != nil {
		return procstats.Selection{}, invalid("measurements: %w", err)
	}
	if selection.Empty() {
		return procstats.Selection{}, invalid("measurements %q: selects nothing; leave it out for the default", words)
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
		return 0, invalid("%s %q: must be a duration such as %q", key, *text, least)
	}
	if d < least || d > most {
		return 0, invalid("%s %q: must be between %s and %s", key, *text, least, strings.TrimSuffix(most.String(), "0m0s"))
	}
	return d, nil
}
