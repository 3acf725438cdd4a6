// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/procstats"
)

// Choices of log_collection and log_overflow.
const (
	// LogsByExecutor has the executor write and rotate the log files.
	LogsByExecutor = "executor"
	// LogsByHost has the host's own collector do it, through FIFOs.
	LogsByHost = "host"
	// LogsBlock lets the task wait while the disk is full.
	LogsBlock = "block"
	// LogsDrop drops, and counts, what a full disk does not take.
	LogsDrop = "drop"
)

// Defaults of the driver's configuration. Those of logs are below a job's own in Nomad, which reserves disk for them
// and tells a driver neither.
const (
	DefaultMaxFiles    = 4
	DefaultMaxFileMiB  = 5
	DefaultProcessRows = 100
	DefaultRowInterval = 10 * time.Second
	// DefaultSamplingBudget is in percent of one core.
	DefaultSamplingBudget = 2
)

// Config is the driver's own configuration, once for all tasks: plugin "tacho" { config { … } }.
type Config struct {
	// Enabled is false if no task may be started.
	Enabled bool
	// Enforce sets the limits of jobs on their tasks.
	Enforce bool
	// LogCollection is LogsByExecutor or LogsByHost.
	LogCollection string
	// LogOverflow is LogsBlock or LogsDrop.
	LogOverflow string
	// Settings are those of tasks that set nothing else.
	Settings
	// RuntimeDir is the directory for the sockets of executors; empty for the default.
	RuntimeDir string
	// CgroupParent is where cgroups are made if the host makes none; empty for the executor's choice.
	CgroupParent string
	// DeniedUIDs and DeniedGIDs may not be those of a task's user.
	DeniedUIDs, DeniedGIDs IDRanges
	// MinOOMScoreAdj is the lowest oom_score_adj that a job may ask for.
	MinOOMScoreAdj int
	// MetricsAddress is where numbers are served, host:port or unix:/path; empty for no endpoint.
	MetricsAddress string
}

// ConfigBlock is a task's config block: config { … }. The keys of raw_exec mean the same here.
type ConfigBlock struct {
	Command string
	Args    []string
	WorkDir string
	// CgroupV2 is the cgroup that the task is put into, CgroupV1 those by controller; one of them at most.
	CgroupV2 string
	CgroupV1 map[string]string
	// OOMScoreAdj is nil if it is not set.
	OOMScoreAdj *int
	// Settings take precedence over the driver's.
	Settings
}

// configKeys has the keys of the driver's configuration.
func configKeys() table[Config] {
	return append(
		table[Config]{
			attr("enabled", boolean(), true, func(c *Config) *bool { return &c.Enabled }),
			attr("enforce", boolean(), true, func(c *Config) *bool { return &c.Enforce }),
			attr("log_collection", word(LogsByExecutor, LogsByHost), LogsByExecutor,
				func(c *Config) *string { return &c.LogCollection }),
			attr("log_overflow", word(LogsBlock, LogsDrop), LogsBlock, func(c *Config) *string { return &c.LogOverflow }),
			attr("runtime_dir", text().checked(checkRuntimeDir), nil, func(c *Config) *string { return &c.RuntimeDir }),
			attr("cgroup_parent", text(), nil, func(c *Config) *string { return &c.CgroupParent }),
			attr("denied_host_uids", parsed(text(), parseIDRanges), nil, func(c *Config) *IDRanges { return &c.DeniedUIDs }),
			attr("denied_host_gids", parsed(text(), parseIDRanges), nil, func(c *Config) *IDRanges { return &c.DeniedGIDs }),
			attr("min_oom_score_adj", whole(-1000, 1000), 0, func(c *Config) *int { return &c.MinOOMScoreAdj }),
			block("metrics", table[Config]{
				required(attr("address", text().checked(checkAddress), nil, func(c *Config) *string { return &c.MetricsAddress })),
			}, func(c *Config) *Config { return c }, nil),
		},
		within(settingKeys(func(fallback any) any { return fallback }), func(c *Config) *Settings { return &c.Settings })...)
}

// taskKeys has the keys of a task's config block.
func taskKeys() table[ConfigBlock] {
	return append(
		table[ConfigBlock]{
			required(attr("command", text().checked(checkCommand), nil, func(b *ConfigBlock) *string { return &b.Command })),
			attr("args", texts(), nil, func(b *ConfigBlock) *[]string { return &b.Args }),
			attr("work_dir", text().checked(checkWorkDir), nil, func(b *ConfigBlock) *string { return &b.WorkDir }),
			attr("cgroup_v2_override", text(), nil, func(b *ConfigBlock) *string { return &b.CgroupV2 }),
			attr("cgroup_v1_override", textMap(), nil, func(b *ConfigBlock) *map[string]string { return &b.CgroupV1 }),
			attr("oom_score_adj", optional(whole(-1000, 1000)), nil, func(b *ConfigBlock) **int { return &b.OOMScoreAdj }),
		},
		within(settingKeys(func(any) any { return nil }), func(b *ConfigBlock) *Settings { return &b.Settings })...)
}

// ConfigSchema is the shape of plugin "tacho" { config { … } }.
func ConfigSchema() Schema { return configKeys().schema() }

// TaskSchema is the shape of a task's config { … }.
func TaskSchema() Schema { return taskKeys().schema() }

// DefaultConfig is what an empty configuration means.
func DefaultConfig() Config {
	c, err := DecodeConfig(nil)
	if err != nil {
		panic(err) // the defaults of the table are valid
	}
	return c
}

// DecodeConfig reads a configuration as a host sends it, MessagePack shaped by ConfigSchema. Errors wrap ErrInvalid and
// list every mistake.
func DecodeConfig(msgpack []byte) (Config, error) {
	var c Config
	err := configKeys().decode(&c, msgpack)
	return c, err
}

// DecodeBlock reads a task's config block, MessagePack shaped by TaskSchema. Errors wrap ErrInvalid and list every
// mistake.
func DecodeBlock(msgpack []byte) (*ConfigBlock, error) {
	b := new(ConfigBlock)
	err := taskKeys().decode(b, msgpack)
	if b.overridesV1() && b.CgroupV2 != "" {
		err = joinMistakes(err, invalid("cgroup_v2_override and cgroup_v1_override are mutually exclusive"))
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (b *ConfigBlock) overridesV1() bool { return len(b.CgroupV1) > 0 }

func (b *ConfigBlock) overridesCgroup() bool { return b.CgroupV2 != "" || b.overridesV1() }

func checkCommand(_, command string) error {
	if command == "" {
		return invalid("command is empty")
	}
	return nil
}

func checkWorkDir(key, dir string) error {
	if dir != "" && !filepath.IsAbs(dir) {
		return invalid("%s %q: must be an absolute path", key, dir)
	}
	return nil
}

// The longest parts of an executor's id, and the id.
const (
	longestName, longestAlloc, hashBytes = 24, 8, 5
	longestID                            = longestAlloc + len("-") + longestName + len("-") + 2*hashBytes
)

// LongestRuntimeDir is how many bytes the path of a runtime directory may have, so that any task's socket can be in it.
func LongestRuntimeDir() int { return client.LongestRuntimeDir(longestID) }

// checkRuntimeDir rejects a directory in which not every task can be started; an empty one is the default's.
func checkRuntimeDir(key, dir string) error {
	if longest := LongestRuntimeDir(); len(dir) > longest {
		return invalid("%s %q has %d bytes; at most %d, because the path of a socket in it can have %d, unix(7)",
			key, dir, len(dir), longest, paths.LongestSocket)
	}
	return checkWorkDir(key, dir)
}

// IDRange is the user or group ids from First to Last, both included.
type IDRange struct {
	First, Last uint32
}

// IDRanges are user or group ids that are not allowed.
type IDRanges []IDRange

// Has reports whether id is in one of the ranges.
func (rs IDRanges) Has(id uint32) bool {
	return slices.ContainsFunc(rs, func(r IDRange) bool { return r.First <= id && id <= r.Last })
}

// parseIDRanges reads a list such as "0, 10-15".
func parseIDRanges(key, list string) (IDRanges, error) {
	var ranges IDRanges
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, errLow := strconv.ParseUint(strings.TrimSpace(first), 10, 32)
		high, errHigh := strconv.ParseUint(strings.TrimSpace(last), 10, 32)
		if errLow != nil || errHigh != nil {
			return nil, invalid("%s: %q is neither an id nor a range of ids", key, part)
		}
		if low > high {
			// raw_exec has its own word for the key in this message, which its tests and operators look for.
			list := strings.NewReplacer("denied_host_uids", "deniedHostUIDs", "denied_host_gids", "deniedHostGIDs").Replace(key)
			return nil, invalid("%s: invalid range %s %q: lower bound cannot be greater than upper bound", key, list, part)
		}
		ranges = append(ranges, IDRange{First: uint32(low), Last: uint32(high)})
	}
	return ranges, nil
}

// joinMistakes returns the errors that are not nil as a *multierror.Error, which prints each on a line of its own;
// nil if there are none. A host may give each of them its place in a file.
func joinMistakes(errs ...error) error {
	list := &multierror.Error{ErrorFormat: func(errs []error) string { return errors.Join(errs...).Error() }}
	for _, err := range errs {
		if err != nil {
			list = multierror.Append(list, err)
		}
	}
	return list.ErrorOrNil()
}

// checkAddress refuses addresses that others than this machine's users can reach: there is no token here.
func checkAddress(key, address string) error {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		if !strings.HasPrefix(path, "/") {
			return invalid("%s %q: the path of a socket must be absolute", key, address)
		}
		if err := paths.CheckSocket(path); err != nil {
			return invalid("%s: %w", key, err)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return invalid("%s %q is neither host:port nor unix:/path: %w", key, address, err)
	}
	if !isLoopback(host) {
		return invalid("%s %q is not on the loopback interface", key, address)
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

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
