// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// Settings are set for all tasks by the driver's configuration, and for one by its config block.
type Settings struct {
	Logs LogLimits
	// Rows is how often which processes of a task are read.
	Rows RowLimits
	// Measured is what is measured of a task.
	Measured Measured
	// DeniedEnv are patterns of variables that a task does not get.
	DeniedEnv []string
}

// LogLimits bound the log files of one stream of one task; 0 if not set.
type LogLimits struct {
	MaxFiles int
	// MaxFileBytes is the size at which a file is followed by the next.
	MaxFileBytes int64
}

// RowLimits say how often which processes of a task are read; the zero value sets nothing.
type RowLimits struct {
	// Interval is the least time between two sets of process rows, unless a client looks at them; 0 if not set.
	Interval time.Duration
	// Max is the most rows of a set, 0 for none; nil if not set.
	Max *int
}

// Measured is what is measured of tasks; the zero value sets nothing.
type Measured struct {
	// Selection is empty if it is not set.
	Selection procstats.Selection
	// Disk adds the disk usage to the selection.
	Disk bool
	// Network is NetworkAuto or NetworkOff; empty if it is not set.
	Network string
	// DiskInterval is the least time between two walks of a task's directory, DiskBudget how long a walk may take of
	// one collection; 0 if not set.
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

// settingKeys has the keys of the settings in T. fallback returns the default of a key from the driver's.
func settingKeys[T any](settings func(*T) *Settings, fallback func(any) any) table[T] {
	logs := func(t *T) *LogLimits { return &settings(t).Logs }
	rows := func(t *T) *RowLimits { return &settings(t).Rows }
	measured := func(t *T) *Measured { return &settings(t).Measured }
	return table[T]{
		attr("denied_envvars", texts().checked(checkPatterns), nil, func(t *T) *[]string { return &settings(t).DeniedEnv }),
		block("logs", table[LogLimits]{
			attr("max_files", whole(1, 10_000), fallback(DefaultMaxFiles), func(l *LogLimits) *int { return &l.MaxFiles }),
			attr("max_file_size", parsed(whole(1, 1<<20), mebibytes), fallback(DefaultMaxFileMiB),
				func(l *LogLimits) *int64 { return &l.MaxFileBytes }),
		}, logs, nil),
		// A walk of the directory makes a collection late, and takes CPU time that is not the task's.
		block("disk", table[Measured]{
			attr("interval", duration(time.Second, 24*time.Hour), nil,
				func(m *Measured) *time.Duration { return &m.DiskInterval }),
			attr("budget", duration(time.Millisecond, 100*time.Millisecond), nil,
				func(m *Measured) *time.Duration { return &m.DiskBudget }),
		}, measured, func(m *Measured) { m.Disk = true }),
		block("process_rows", table[RowLimits]{
			attr("interval", duration(10*time.Millisecond, time.Hour), fallback(DefaultRowInterval.String()),
				func(l *RowLimits) *time.Duration { return &l.Interval }),
			attr("max", optional(whole(0, 10_000)), fallback(DefaultProcessRows), func(l *RowLimits) **int { return &l.Max }),
		}, rows, nil),
		attr("measurements", parsed(text(), parseSelection), fallback("default"),
			func(t *T) *procstats.Selection { return &measured(t).Selection }),
		attr("network", word(NetworkAuto, NetworkOff), fallback(NetworkAuto),
			func(t *T) *string { return &measured(t).Network }),
		attr("sampling_budget", parsed(number(), percentOfCore), fallback(DefaultSamplingBudget),
			func(t *T) *float64 { return &measured(t).SamplingBudget }),
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
	return Settings{
		Logs: LogLimits{
			MaxFiles:     cmp.Or(s.Logs.MaxFiles, other.Logs.MaxFiles),
			MaxFileBytes: cmp.Or(s.Logs.MaxFileBytes, other.Logs.MaxFileBytes),
		},
		Rows: RowLimits{
			Interval: cmp.Or(s.Rows.Interval, other.Rows.Interval),
			Max:      cmp.Or(s.Rows.Max, other.Rows.Max),
		},
		Measured:  s.Measured.or(other.Measured),
		DeniedEnv: slices.Concat(other.DeniedEnv, s.DeniedEnv),
	}
}

// of returns the settings of a task, with what its config block does not set taken from these. A block that is not
// valid any more sets nothing: the task was started by another build.
func (s Settings) of(task *TaskConfig) Settings {
	block := task.Block
	if block == nil {
		block, _ = DecodeBlock(task.DriverConfig)
	}
	if block == nil {
		return s
	}
	return block.or(s)
}

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

// request asks an executor for what is to be measured.
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
		selection = procstats.Select(procstats.ExecutorInterval) // an empty one would mean the default
	}
	for _, id := range selection.IDs() {
		r.Selection = append(r.Selection, uint32(id))
	}
}

// selectsPackets reports whether the packets of a task that is started so are counted.
func selectsPackets(r *proto.LaunchRequest) bool {
	if len(r.GetSelection()) == 0 {
		return procstats.DefaultSelection().HasSource(procstats.SourceSkb)
	}
	return slices.ContainsFunc(r.GetSelection(), func(id uint32) bool {
		m, _ := procstats.Lookup(procstats.ID(id))
		return m.Source == procstats.SourceSkb
	})
}
