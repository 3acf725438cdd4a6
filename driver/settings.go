// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// Settings are set for all tasks by the driver's configuration, and for one by its config block. The zero value of a
// field, but for DeniedEnv and Disk, is one that is not set.
type Settings struct {
	// MaxFiles bounds the log files of one stream of one task, and MaxFileBytes their size.
	MaxFiles     int
	MaxFileBytes int64
	// RowInterval is the least time between two sets of process rows, unless a client looks at them.
	RowInterval time.Duration
	// MaxRows is the most rows of a set, 0 for none.
	MaxRows *int
	// Selection is what is measured; Disk adds the disk usage to it.
	Selection procstats.Selection
	Disk      bool
	// Network is NetworkAuto or NetworkOff.
	Network string
	// DiskInterval is the least time between two walks of a task's directory, DiskBudget how long a walk may take of
	// one collection.
	DiskInterval, DiskBudget time.Duration
	// SamplingBudget is the share of one core that sampling a task may take.
	SamplingBudget float64
	// DeniedEnv are patterns of variables that a task does not get.
	DeniedEnv []string
}

// Words of the key network.
const (
	// NetworkAuto counts a task's packets while it is sampled, if they are selected and the machine allows it.
	NetworkAuto = "auto"
	// NetworkOff counts none.
	NetworkOff = "off"
)

// settingKeys has the keys of the settings. fallback returns the default of a key from the driver's.
func settingKeys(fallback func(any) any) table[Settings] {
	own := func(s *Settings) *Settings { return s }
	return table[Settings]{
		attr("denied_envvars", texts().checked(checkPatterns), nil, func(s *Settings) *[]string { return &s.DeniedEnv }),
		block("logs", table[Settings]{
			attr("max_files", whole(1, 10_000), fallback(DefaultMaxFiles), func(s *Settings) *int { return &s.MaxFiles }),
			attr("max_file_size", parsed(whole(1, 1<<20), mebibytes), fallback(DefaultMaxFileMiB),
				func(s *Settings) *int64 { return &s.MaxFileBytes }),
		}, own, nil),
		// A walk of the directory makes a collection late, and takes CPU time that is not the task's.
		block("disk", table[Settings]{
			attr("interval", duration(time.Second, 24*time.Hour), nil,
				func(s *Settings) *time.Duration { return &s.DiskInterval }),
			attr("budget", duration(time.Millisecond, 100*time.Millisecond), nil,
				func(s *Settings) *time.Duration { return &s.DiskBudget }),
		}, own, func(s *Settings) { s.Disk = true }),
		block("process_rows", table[Settings]{
			attr("interval", duration(10*time.Millisecond, time.Hour), fallback(DefaultRowInterval.String()),
				func(s *Settings) *time.Duration { return &s.RowInterval }),
			attr("max", optional(whole(0, 10_000)), fallback(DefaultProcessRows),
				func(s *Settings) **int { return &s.MaxRows }),
		}, own, nil),
		attr("measurements", parsed(text(), parseSelection), fallback("default"),
			func(s *Settings) *procstats.Selection { return &s.Selection }),
		attr("network", word(NetworkAuto, NetworkOff), fallback(NetworkAuto),
			func(s *Settings) *string { return &s.Network }),
		attr("sampling_budget", parsed(number(), percentOfCore), fallback(DefaultSamplingBudget),
			func(s *Settings) *float64 { return &s.SamplingBudget }),
	}
}

func checkPatterns(key string, patterns []string) error {
	for _, pattern := range patterns {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return invalid("%s %q: %w", key, pattern, err)
		}
	}
	return nil
}

func mebibytes(_ string, n int) (int64, error) { return int64(n) << 20, nil }

// parseSelection reads the words that tacho run --measurements takes.
func parseSelection(key, words string) (procstats.Selection, error) {
	selection, err := procstats.ParseSelection(words)
	if err != nil {
		return procstats.Selection{}, invalid("%s: %w", key, err)
	}
	if selection.Empty() {
		return procstats.Selection{}, invalid("%s %q: selects nothing; leave it out for the default", key, words)
	}
	return selection, nil
}

// percentOfCore returns a sampling budget as a share of one core. Its bounds are those of tacho run.
func percentOfCore(key string, percent float64) (float64, error) {
	const least, most = 0.1, 100
	if !(percent >= least && percent <= most) { // NaN is not either
		return 0, invalid("%s %v: must be between %v and %v percent of one core", key, percent, least, most)
	}
	return percent / 100, nil
}

// or returns the settings with what is not set taken from other. Both deny variables.
func (s Settings) or(other Settings) Settings {
	if s.Selection.Empty() {
		s.Selection, s.Disk = other.Selection, s.Disk || other.Disk
	}
	s.MaxFiles = cmp.Or(s.MaxFiles, other.MaxFiles)
	s.MaxFileBytes = cmp.Or(s.MaxFileBytes, other.MaxFileBytes)
	s.RowInterval = cmp.Or(s.RowInterval, other.RowInterval)
	s.MaxRows = cmp.Or(s.MaxRows, other.MaxRows)
	s.Network = cmp.Or(s.Network, other.Network)
	s.DiskInterval = cmp.Or(s.DiskInterval, other.DiskInterval)
	s.DiskBudget = cmp.Or(s.DiskBudget, other.DiskBudget)
	s.SamplingBudget = cmp.Or(s.SamplingBudget, other.SamplingBudget)
	s.DeniedEnv = slices.Concat(other.DeniedEnv, s.DeniedEnv)
	return s
}

// of returns the settings of a task, with what its config block does not set taken from these. A block that is not
// valid any more sets nothing: the task was started by another build.
func (s Settings) of(task *TaskConfig) Settings {
	block, err := task.block()
	if err != nil {
		return s
	}
	return block.or(s)
}

// block returns the task's config block.
func (c *TaskConfig) block() (*ConfigBlock, error) {
	if c.Block != nil {
		return c.Block, nil
	}
	return DecodeBlock(c.DriverConfig)
}

// measure asks an executor for what is to be measured.
func (s Settings) measure(r *proto.LaunchRequest) {
	r.DiskIntervalNs, r.DiskBudgetNs, r.SamplingBudget = int64(s.DiskInterval), int64(s.DiskBudget), s.SamplingBudget
	r.NetworkOff = s.Network == NetworkOff
	r.Selection = wire.FromSelection(s.measured())
}

// measured is what is to be measured; never empty, which would mean the default.
func (s Settings) measured() procstats.Selection {
	selection := s.Selection
	if s.Disk {
		selection = selection.Union(procstats.SourceSelection(procstats.SourceDisk))
	}
	if s.Network == NetworkOff {
		selection = selection.Minus(procstats.SourceSelection(procstats.SourceSkb))
	}
	if selection.Empty() {
		selection = procstats.Select(procstats.ExecutorInterval)
	}
	return selection
}
