// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/command/cli"
)

// leastCPU is the smallest quota that kernels take: 1 ms in the longest period.
const leastCPU = 0.001

// limitFlags are the flags of tacho run for resource limits.
type limitFlags struct {
	memory, memoryHigh, swapMax size
	oomGroup                    bool
	cpu                         cores
	cpuWeight                   int64
	cpuset                      string
	pids                        int64
	ioMax                       []string

	flags *pflag.FlagSet
}

func (l *limitFlags) add(flags *pflag.FlagSet) {
	l.flags = flags
	const page = 4096
	l.memory.minimum, l.memoryHigh.minimum = page, page
	flags.Var(&l.memory, "memory", "hard memory limit, including page cache: 400M, 1.5G, 64KiB")
	flags.Var(&l.memoryHigh, "memory-high", "memory usage above which the kernel throttles the command (cgroup v2)")
	flags.Var(&l.swapMax, "swap-max", "limit on swap; 0 for no swap")
	flags.BoolVar(&l.oomGroup, "oom-group", false, "on an OOM kill, kill all processes of the command (cgroup v2)")
	flags.Var(&l.cpu, "cpu", "CPU quota in cores, such as 1.5, or in percent of one, such as 150%")
	flags.Int64Var(&l.cpuWeight, "cpu-weight", 0, "relative `SHARE` of contended CPU, 1 to 10000; the default of cgroups is 100")
	flags.StringVar(&l.cpuset, "cpuset", "", "`LIST` of CPUs to run on, such as 0-3,7")
	flags.Int64Var(&l.pids, "pids", 0, "limit of `N` processes and threads")
	flags.StringArrayVar(&l.ioMax, "io-max", nil,
		"`LIMITS` per second of a block device: DEVICE:rbps=SIZE,wbps=SIZE, also riops=N and wiops=N; may be repeated")
}

// request returns the requested limits, nil for none. Whether this host can enforce them, only the executor knows.
func (l *limitFlags) request() (*proto.Limits, error) {
	if l.flags.Changed("cpuset") && l.cpuset == "" {
		return nil, cli.Usagef("--cpuset: must be a list of CPUs such as 0-3,7")
	}
	switch {
	case l.flags.Changed("pids") && l.pids < 1:
		return nil, cli.Usagef("--pids %d: must be at least 1", l.pids)
	case l.flags.Changed("cpu-weight") && (l.cpuWeight < 1 || l.cpuWeight > 10_000):
		return nil, cli.Usagef("--cpu-weight %d: must be 1 to 10000", l.cpuWeight)
	}
	limits := &proto.Limits{
		MemoryMaxBytes:     given(l.flags, "memory", &l.memory.value),
		MemoryHighBytes:    given(l.flags, "memory-high", &l.memoryHigh.value),
		MemorySwapMaxBytes: given(l.flags, "swap-max", &l.swapMax.value),
		MemoryOomGroup:     given(l.flags, "oom-group", &l.oomGroup),
		CpuCores:           given(l.flags, "cpu", (*float64)(&l.cpu)),
		CpuWeight:          given(l.flags, "cpu-weight", &l.cpuWeight),
		Cpuset:             l.cpuset,
		PidsMax:            given(l.flags, "pids", &l.pids),
	}
	for _, text := range l.ioMax {
		// The environment variable has all devices in one text.
		for device := range strings.FieldsSeq(text) {
			limit, err := parseIOMax(device)
			if err != nil {
				return nil, cli.Usagef("--io-max %s: %w", device, err)
			}
			limits.Io = append(limits.Io, limit)
		}
	}
	none := limits.MemoryMaxBytes == nil && limits.MemoryHighBytes == nil && limits.MemorySwapMaxBytes == nil && limits.MemoryOomGroup == nil &&
		limits.CpuCores == nil && limits.CpuWeight == nil && limits.Cpuset == "" && limits.PidsMax == nil && len(limits.Io) == 0
	if none {
		return nil, nil //nolint:nilnil // the wire has nil for no limits
	}
	return limits, nil
}

// given returns the value of a flag that was set; nil for others.
func given[T any](flags *pflag.FlagSet, name string, value *T) *T {
	if !flags.Changed(name) {
		return nil
	}
	return value
}

// size is a flag for a number of bytes, with or without a unit.
type size struct{ value, minimum int64 }

// String implements pflag.Value; an empty text hides the default in the help.
func (s *size) String() string {
	if s.value == 0 {
		return ""
	}
	return strconv.FormatInt(s.value, 10)
}

// Set implements pflag.Value.
func (s *size) Set(text string) error {
	bytes, err := cli.ParseSize(text)
	switch {
	case err != nil:
		return err
	case bytes < s.minimum && bytes > 0 && strings.Trim(text, "0123456789") == "":
		return fmt.Errorf("below the minimum of %d bytes; did you mean %sM?", s.minimum, text)
	case bytes < s.minimum:
		return fmt.Errorf("below the minimum of %d bytes", s.minimum)
	}
	s.value = bytes
	return nil
}

// Type implements pflag.Value.
func (s *size) Type() string { return "SIZE" }

// cores is a flag for a number of CPUs.
type cores float64

// String implements pflag.Value; an empty text hides the default in the help.
func (c *cores) String() string {
	if *c == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*c), 'f', -1, 64)
}

// Set implements pflag.Value.
func (c *cores) Set(text string) error {
	value, err := cli.ParseShare(text)
	if err != nil {
		return errors.New("must be a number of cores such as 1.5, or 150%")
	}
	if value < leastCPU {
		return fmt.Errorf("must be at least %v cores", leastCPU)
	}
	*c = cores(value)
	return nil
}

// Type implements pflag.Value.
func (c *cores) Type() string { return "CORES" }

// parseIOMax parses DEVICE:rbps=SIZE,wbps=SIZE,riops=N,wiops=N. DEVICE is major:minor or the path of a block device.
func parseIOMax(text string) (*proto.IOLimit, error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || !strings.Contains(text[colon:], "=") {
		return nil, errors.New("must be DEVICE:rbps=SIZE,wbps=SIZE,riops=N,wiops=N")
	}
	device, err := blockDevice(text[:colon])
	if err != nil {
		return nil, err
	}
	limit := &proto.IOLimit{Device: device}
	for setting := range strings.SplitSeq(text[colon+1:], ",") {
		key, value, _ := strings.Cut(setting, "=")
		field := map[string]**int64{
			"rbps": &limit.ReadBytesPerSecond, "wbps": &limit.WriteBytesPerSecond,
			"riops": &limit.ReadOperationsPerSecond, "wiops": &limit.WriteOperationsPerSecond,
		}[key]
		if field == nil {
			return nil, fmt.Errorf("%q is not one of rbps, wbps, riops, wiops", key)
		}
		if *field != nil {
			return nil, fmt.Errorf("%s is given twice", key)
		}
		number, err := cli.ParseSize(value)
		if err != nil || number < 1 {
			return nil, fmt.Errorf("%s: must be at least 1, such as 100 or 10M", setting)
		}
		*field = &number
	}
	return limit, nil
}
