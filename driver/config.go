// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
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
	"github.com/tachograph/tacho/internal/paths"
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
