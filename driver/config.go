// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/tachograph/tacho/executor/client"
)

// Config is the driver's own configuration, once for all tasks.
type Config struct {
	// Enforce sets the limits of jobs on their tasks.
	Enforce bool
	// LogCollection is LogsByExecutor or LogsByHost.
	LogCollection string
	// LogOverflow is LogsBlock or LogsDrop.
	LogOverflow string
	Logs        LogLimits
	// ProcessRows is the most process rows in a reading; 0 for none.
	ProcessRows int
	// RuntimeDir is where sockets are; empty for the default.
	RuntimeDir string
	// CgroupParent is where cgroups are made if the host makes none; empty for the executor's choice.
	CgroupParent string
	// DeniedUIDs and DeniedGIDs may not be those of a task's user.
	DeniedUIDs, DeniedGIDs IDRanges
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
		ProcessRows:   DefaultProcessRows,
	}
}

// rawConfig is ConfigSchema as it comes in MessagePack. Pointers tell what is not said from zero.
type rawConfig struct {
	Enforce        *bool       `codec:"enforce"`
	LogCollection  *string     `codec:"log_collection"`
	LogOverflow    *string     `codec:"log_overflow"`
	Logs           *rawLogs    `codec:"logs"`
	ProcessRows    *int64      `codec:"process_rows"`
	RuntimeDir     string      `codec:"runtime_dir"`
	CgroupParent   string      `codec:"cgroup_parent"`
	DeniedHostUIDs string      `codec:"denied_host_uids"`
	DeniedHostGIDs string      `codec:"denied_host_gids"`
	DeniedEnvvars  []string    `codec:"denied_envvars"`
	Metrics        *rawMetrics `codec:"metrics"`
}

type rawLogs struct {
	MaxFiles    *int64 `codec:"max_files"`
	MaxFileSize *int64 `codec:"max_file_size"`
}

type rawMetrics struct {
	Address string `codec:"address"`
}

// DecodeConfig reads a configuration as a host sends it, shaped by ConfigSchema. Errors wrap ErrInvalid.
func DecodeConfig(msgpack []byte) (Config, error) {
	c := DefaultConfig()
	var raw rawConfig
	if err := decode(msgpack, &raw); err != nil {
		return c, fmt.Errorf("read plugin config: %w", err)
	}
	if raw.Enforce != nil {
		c.Enforce = *raw.Enforce
	}
	var errs [8]error
	c.LogCollection, errs[0] = oneOf("log_collection", raw.LogCollection, LogsByExecutor, LogsByHost)
	c.LogOverflow, errs[1] = oneOf("log_overflow", raw.LogOverflow, LogsBlock, LogsDrop)
	limits, err := raw.Logs.limits()
	c.Logs, errs[2] = limits.or(c.Logs), err
	if raw.ProcessRows != nil {
		c.ProcessRows, errs[3] = within("process_rows", *raw.ProcessRows, 0, 10_000)
	}
	c.DeniedUIDs, errs[4] = parseIDRanges("denied_host_uids", raw.DeniedHostUIDs)
	c.DeniedGIDs, errs[5] = parseIDRanges("denied_host_gids", raw.DeniedHostGIDs)
	errs[6] = checkPatterns(raw.DeniedEnvvars)
	c.RuntimeDir, c.CgroupParent, c.DeniedEnv = raw.RuntimeDir, raw.CgroupParent, raw.DeniedEnvvars
	if raw.Metrics != nil {
		c.MetricsAddress = raw.Metrics.Address
		if err := checkAddress(c.MetricsAddress); err != nil {
			return c, err
		}
	}
	errs[7] = checkRuntimeDir(c.RuntimeDir)
	return c, errors.Join(errs[:]...)
}

// LongestRuntimeDir is how many bytes the path of a runtime folder may have, so that any task's socket can be in it.
func LongestRuntimeDir() int { return client.LongestRuntimeDir(longestID) }

// checkRuntimeDir refuses a folder in which not every task can be started; an empty one is the default's.
func checkRuntimeDir(dir string) error {
	if dir != "" && !filepath.IsAbs(dir) {
		return fmt.Errorf("runtime_dir %q is not absolute: %w", dir, ErrInvalid)
	}
	if longest := LongestRuntimeDir(); len(dir) > longest {
		return fmt.Errorf("runtime_dir %q has %d bytes, and may have %d: the path of a socket in it has 107 at most, unix(7): %w",
			dir, len(dir), longest, ErrInvalid)
	}
	return nil
}

// taskConfig is what a task's config block says.
type taskConfig struct {
	command  string
	args     []string
	workDir  string
	cgroupV2 string
	cgroupV1 map[string]string
	// oomScoreAdj of the task; nil where not said.
	oomScoreAdj *int
	deniedEnv   []string
	logs        LogLimits
}

type rawTask struct {
	Command       string              `codec:"command"`
	Args          []string            `codec:"args"`
	WorkDir       string              `codec:"work_dir"`
	CgroupV2      string              `codec:"cgroup_v2_override"`
	CgroupV1      []map[string]string `codec:"cgroup_v1_override"`
	OOMScoreAdj   *int64              `codec:"oom_score_adj"`
	DeniedEnvvars []string            `codec:"denied_envvars"`
	Logs          *rawLogs            `codec:"logs"`
}

// decodeTask reads a task's config block, shaped by TaskSchema. Errors wrap ErrInvalid.
func decodeTask(msgpack []byte) (*taskConfig, error) {
	var raw rawTask
	if err := decode(msgpack, &raw); err != nil {
		return nil, fmt.Errorf("read task config: %w", err)
	}
	c := &taskConfig{
		command: raw.Command, args: raw.Args, workDir: raw.WorkDir,
		cgroupV2: raw.CgroupV2, deniedEnv: raw.DeniedEnvvars,
	}
	if c.command == "" {
		return nil, fmt.Errorf("command is empty: %w", ErrInvalid)
	}
	if c.workDir != "" && !filepath.IsAbs(c.workDir) {
		return nil, fmt.Errorf("work_dir %q is not absolute: %w", c.workDir, ErrInvalid)
	}
	if err := checkPatterns(c.deniedEnv); err != nil {
		return nil, err
	}
	if raw.OOMScoreAdj != nil {
		adj, err := within("oom_score_adj", *raw.OOMScoreAdj, -1000, 1000)
		if err != nil {
			return nil, err
		}
		c.oomScoreAdj = &adj
	}
	for _, groups := range raw.CgroupV1 {
		if c.cgroupV1 == nil {
			c.cgroupV1 = make(map[string]string, len(groups))
		}
		maps.Copy(c.cgroupV1, groups)
	}
	if c.cgroupV2 != "" && len(c.cgroupV1) > 0 {
		return nil, fmt.Errorf("cgroup_v2_override and cgroup_v1_override exclude each other: %w", ErrInvalid)
	}
	var err error
	c.logs, err = raw.Logs.limits()
	return c, err
}

// CheckTask refuses a task's config block, shaped by TaskSchema, that no task can be started with. Errors wrap
// ErrInvalid.
func CheckTask(msgpack []byte) error {
	_, err := decodeTask(msgpack)
	return err
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
	return limits, errors.Join(errFiles, errSize)
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
		return fmt.Errorf("decode MessagePack: %w: %w", err, ErrInvalid)
	}
	return nil
}

// oneOf returns a word that must be one of the allowed ones, the first where it is not said.
func oneOf(key string, word *string, allowed ...string) (string, error) {
	if word == nil || *word == "" {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, *word) {
		return allowed[0], fmt.Errorf("%s %q is none of %q: %w", key, *word, allowed, ErrInvalid)
	}
	return *word, nil
}

func within(key string, n, least, most int64) (int, error) {
	if n < least || n > most || n > math.MaxInt || n < math.MinInt {
		return 0, fmt.Errorf("%s %d is not between %d and %d: %w", key, n, least, most, ErrInvalid)
	}
	return int(n), nil
}

func checkPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return fmt.Errorf("denied_envvars %q: %w: %w", pattern, err, ErrInvalid)
		}
	}
	return nil
}
