// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/procstats"
)

// Config is the driver's own configuration, once for all tasks.
type Config struct {
	// Disabled starts no task.
	Disabled bool
	// Enforce sets the limits of jobs on their tasks.
	Enforce bool
	// LogCollection is LogsByExecutor or LogsByHost.
	LogCollection string
	// LogOverflow is LogsBlock or LogsDrop.
	LogOverflow string
	Logs        LogLimits
	// Rows is how often which processes of tasks are read that set nothing else.
	Rows RowLimits
	// Measured is what is measured of tasks that set nothing else.
	Measured Measured
	// RuntimeDir is where sockets are; empty for the default.
	RuntimeDir string
	// CgroupParent is where cgroups are made if the host makes none; empty for the executor's choice.
	CgroupParent string
	// DeniedUIDs and DeniedGIDs may not be those of a task's user.
	DeniedUIDs, DeniedGIDs IDRanges
	// MinOOMScoreAdj is the lowest oom_score_adj that a job may ask for.
	MinOOMScoreAdj int
	// DeniedEnv are patterns of variables that no task gets.
	DeniedEnv []string
	// MetricsAddress is where numbers are served, host:port or unix:/path; empty for nowhere.
	MetricsAddress string
}

// LogLimits bound the log files of one stream of one task; 0 means not said.
type LogLimits struct {
	MaxFiles int
	// MaxFileBytes is the size at which a file is followed by the next.
	MaxFileBytes int64
}

// or returns the limits with what is not said taken from other.
func (l LogLimits) or(other LogLimits) LogLimits {
	return LogLimits{
		MaxFiles:     cmp.Or(l.MaxFiles, other.MaxFiles),
		MaxFileBytes: cmp.Or(l.MaxFileBytes, other.MaxFileBytes),
	}
}

// DefaultConfig is what an empty configuration means.
func DefaultConfig() Config {
	return Config{
		Enforce:       true,
		LogCollection: LogsByExecutor,
		LogOverflow:   LogsBlock,
		Logs:          LogLimits{MaxFiles: DefaultMaxFiles, MaxFileBytes: DefaultMaxFileMiB << 20},
		Rows:          RowLimits{Interval: DefaultRowInterval, Max: new(DefaultProcessRows)},
		Measured:      Measured{Selection: procstats.DefaultSelection(), Network: NetworkAuto, SamplingBudget: DefaultSamplingBudget / 100.0},
	}
}

// rawConfig is ConfigSchema as it comes in MessagePack from a host behind a wire, and as a value from one in this
// process. Pointers tell what is not said from zero.
type rawConfig struct {
	Enabled        *bool       `codec:"enabled" cty:"enabled"`
	Enforce        *bool       `codec:"enforce" cty:"enforce"`
	LogCollection  *string     `codec:"log_collection" cty:"log_collection"`
	LogOverflow    *string     `codec:"log_overflow" cty:"log_overflow"`
	Logs           *rawLogs    `codec:"logs" cty:"logs"`
	ProcessRows    *rawRows    `codec:"process_rows" cty:"process_rows"`
	Measurements   *string     `codec:"measurements" cty:"measurements"`
	Network        *string     `codec:"network" cty:"network"`
	Disk           *rawDisk    `codec:"disk" cty:"disk"`
	SamplingBudget *float64    `codec:"sampling_budget" cty:"sampling_budget"`
	RuntimeDir     *string     `codec:"runtime_dir" cty:"runtime_dir"`
	CgroupParent   *string     `codec:"cgroup_parent" cty:"cgroup_parent"`
	DeniedHostUIDs *string     `codec:"denied_host_uids" cty:"denied_host_uids"`
	DeniedHostGIDs *string     `codec:"denied_host_gids" cty:"denied_host_gids"`
	MinOOMScoreAdj *int64      `codec:"min_oom_score_adj" cty:"min_oom_score_adj"`
	DeniedEnvvars  []string    `codec:"denied_envvars" cty:"denied_envvars"`
	Metrics        *rawMetrics `codec:"metrics" cty:"metrics"`
}

type rawLogs struct {
	MaxFiles    *int64 `codec:"max_files" cty:"max_files"`
	MaxFileSize *int64 `codec:"max_file_size" cty:"max_file_size"`
}

type rawMetrics struct {
	Address string `codec:"address" cty:"address"`
}

// DecodeConfig reads a configuration as a host sends it, MessagePack shaped by ConfigSchema. Errors wrap ErrInvalid, and
// name all that is wrong.
func DecodeConfig(msgpack []byte) (Config, error) {
	var raw rawConfig
	if err := decode(msgpack, &raw); err != nil {
		return DefaultConfig(), fmt.Errorf("read plugin config: %w", err)
	}
	return raw.check()
}

// ConfigOf reads a configuration as DecodeConfig does, from a value shaped by ConfigSchema.
func ConfigOf(value cty.Value) (Config, error) {
	var raw rawConfig
	if err := gocty.FromCtyValue(value, &raw); err != nil {
		return DefaultConfig(), invalid("read plugin config: %w", err)
	}
	return raw.check()
}

func (raw *rawConfig) check() (Config, error) {
	c := DefaultConfig()
	c.Disabled = raw.Enabled != nil && !*raw.Enabled
	if raw.Enforce != nil {
		c.Enforce = *raw.Enforce
	}
	var errs [11]error
	c.LogCollection, errs[0] = oneOf("log_collection", raw.LogCollection, LogsByExecutor, LogsByHost)
	c.LogOverflow, errs[1] = oneOf("log_overflow", raw.LogOverflow, LogsBlock, LogsDrop)
	limits, err := raw.Logs.limits()
	c.Logs, errs[2] = limits.or(c.Logs), err
	rows, err := raw.ProcessRows.limits()
	c.Rows, errs[3] = rows.or(c.Rows), err
	c.DeniedUIDs, errs[4] = parseIDRanges("denied_host_uids", said(raw.DeniedHostUIDs))
	c.DeniedGIDs, errs[5] = parseIDRanges("denied_host_gids", said(raw.DeniedHostGIDs))
	errs[6] = checkPatterns(raw.DeniedEnvvars)
	c.RuntimeDir, c.CgroupParent, c.DeniedEnv = said(raw.RuntimeDir), said(raw.CgroupParent), raw.DeniedEnvvars
	errs[7] = checkRuntimeDir(c.RuntimeDir)
	if raw.Metrics != nil {
		c.MetricsAddress = raw.Metrics.Address
		errs[8] = checkAddress(c.MetricsAddress)
	}
	set, err := measured(raw.Measurements, raw.Network, raw.Disk, raw.SamplingBudget)
	c.Measured, errs[9] = set.or(c.Measured), err
	if raw.MinOOMScoreAdj != nil {
		c.MinOOMScoreAdj, errs[10] = within("min_oom_score_adj", *raw.MinOOMScoreAdj, -1000, 1000)
	}
	return c, joinMistakes(errs[:]...)
}

// said returns a text, empty if it is not said.
func said(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// LongestRuntimeDir is how many bytes the path of a runtime directory may have, so that any task's socket can be in it.
func LongestRuntimeDir() int { return client.LongestRuntimeDir(longestID) }

// checkRuntimeDir refuses a directory in which not every task can be started; an empty one is the default's.
func checkRuntimeDir(dir string) error {
	if dir != "" && !filepath.IsAbs(dir) {
		return invalid("runtime_dir %q: must be an absolute path", dir)
	}
	if longest := LongestRuntimeDir(); len(dir) > longest {
		return invalid("runtime_dir %q has %d bytes; at most %d, because the path of a socket in it can have 107, unix(7)",
			dir, len(dir), longest)
	}
	return nil
}

func (l *rawLogs) limits() (LogLimits, error) {
	var limits LogLimits
	if l == nil {
		return limits, nil
	}
	var errFiles, errSize error
	if l.MaxFiles != nil {
		limits.MaxFiles, errFiles = within("logs: max_files", *l.MaxFiles, 1, 10_000)
	}
	if l.MaxFileSize != nil {
		var mib int
		mib, errSize = within("logs: max_file_size", *l.MaxFileSize, 1, 1<<20)
		limits.MaxFileBytes = int64(mib) << 20
	}
	return limits, joinMistakes(errFiles, errSize)
}

// decode reads MessagePack as hosts write it: maps with string keys, strings of the old raw kind and of the new.
// Nothing at all is an empty map.
func decode(msgpack []byte, into any) error {
	if len(msgpack) == 0 {
		return nil
	}
	handle := &codec.MsgpackHandle{}
	handle.RawToString = true
	handle.MapType = reflect.TypeFor[map[string]any]()
	decoder := codec.NewDecoder(bytes.NewReader(msgpack), handle)
	if err := decoder.Decode(into); err != nil {
		return invalid("decode MessagePack: %w", err)
	}
	return nil
}

// oneOf returns a word that must be one of the allowed ones, the first where it is not said.
func oneOf(key string, word *string, allowed ...string) (string, error) {
	if word == nil || *word == "" {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, *word) {
		return allowed[0], invalid("%s %q: must be %s", key, *word, strings.Join(allowed, " or "))
	}
	return *word, nil
}

func within(key string, n, least, most int64) (int, error) {
	if n < least || n > most || n > math.MaxInt || n < math.MinInt {
		return 0, invalid("%s %d: must be between %d and %d", key, n, least, most)
	}
	return int(n), nil
}

func checkPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return invalid("denied_envvars %q: %w", pattern, err)
		}
	}
	return nil
}

// joinMistakes returns the errors that are not nil as a *multierror.Error, which prints each on a line of its own; nil if
// there is none. A host may give each of them its place in a file.
func joinMistakes(errs ...error) error {
	list := &multierror.Error{ErrorFormat: func(errs []error) string { return errors.Join(errs...).Error() }}
	for _, err := range errs {
		if err != nil {
			list = multierror.Append(list, err)
		}
	}
	return list.ErrorOrNil()
}
