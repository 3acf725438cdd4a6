// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/command/cli"
)

// leastCPU is the smallest quota that kernels take: 1 ms in the longest period.
const leastCPU = 0.001

// addLimitFlags adds the flags for resource limits. A limit that is not given is nil.
func (o *runOptions) addLimitFlags(flags *pflag.FlagSet) {
	page := int64(os.Getpagesize())
	l := &proto.Limits{}
	o.request.Limits = l
	size := func(least int64) func(string) (int64, error) {
		return func(text string) (int64, error) { return parseSize(text, least) }
	}
	number := func(least, most int) func(string) (int64, error) {
		return func(text string) (int64, error) {
			n := 0
			err := cli.Number(&n, least, most).Set(text)
			return int64(n), err
		}
	}
	flags.Var(optional(&l.MemoryMaxBytes, "SIZE", size(page)), "memory",
		"hard memory limit, including page cache: 400M, 1.5G, 64KiB")
	flags.Var(optional(&l.MemoryHighBytes, "SIZE", size(page)), "memory-high",
		"memory usage above which the kernel throttles the command (cgroup v2)")
	flags.Var(optional(&l.MemorySwapMaxBytes, "SIZE", size(0)), "swap-max", "limit on swap; 0 for no swap")
	flags.VarPF(optional(&l.MemoryOomGroup, "bool", strconv.ParseBool), "oom-group", "",
		"on an OOM kill, kill all processes of the command (cgroup v2)").NoOptDefVal = "true"
	flags.Var(optional(&l.CpuCores, "CORES", parseCores), "cpu",
		"CPU quota in cores, such as 1.5, or in percent of one, such as 150%")
	flags.Var(optional(&l.CpuWeight, "int64", number(1, 10_000)), "cpu-weight",
		"relative `SHARE` of contended CPU, 1 to 10000; the default of cgroups is 100")
	flags.StringVar(&l.Cpuset, "cpuset", "", "`LIST` of CPUs to run on, such as 0-3,7")
	flags.Var(optional(&l.PidsMax, "int64", number(1, math.MaxInt)), "pids", "limit of `N` processes and threads")
	flags.StringArrayVar(&o.ioMax, "io-max", nil,
		"`LIMITS` per second of a block device: DEVICE:rbps=SIZE,wbps=SIZE, also riops=N and wiops=N; may be repeated")
}

// checkLimits completes the limits of the request, nil for none. Whether this host can enforce them, only the executor
// knows.
func (o *runOptions) checkLimits() error {
	l := o.request.Limits
	if o.flags.Changed("cpuset") && l.Cpuset == "" {
		return cli.Usagef("--cpuset: must be a list of CPUs such as 0-3,7")
	}
	for _, text := range o.ioMax {
		// The environment variable has all devices in one text.
		for device := range strings.FieldsSeq(text) {
			limit, err := parseIOMax(device)
			if err != nil {
				return cli.Usagef("--io-max %s: %w", device, err)
			}
			l.Io = append(l.Io, limit)
		}
	}
	limits := o.given("memory", "memory-high", "swap-max", "oom-group", "cpu", "cpu-weight", "cpuset", "pids", "io-max")
	if len(limits) == 0 {
		o.request.Limits = nil
	}
	return nil
}

// optional returns a flag that sets a field of the request, which is nil if the flag is not given.
func optional[T any](field **T, kind string, parse func(text string) (T, error)) pflag.Value {
	text := func() string {
		if *field == nil {
			return ""
		}
		return fmt.Sprint(**field)
	}
	return cli.NewValue(kind, text, func(text string) error {
		value, err := parse(text)
		if err == nil {
			*field = &value
		}
		return err
	})
}

// parseSize parses a number of bytes, with or without a unit.
func parseSize(text string, least int64) (int64, error) {
	bytes, err := cli.ParseSize(text)
	switch {
	case err != nil:
	case bytes < least && bytes > 0 && strings.Trim(text, "0123456789") == "":
		err = fmt.Errorf("below the minimum of %d bytes; did you mean %sM?", least, text)
	case bytes < least:
		err = fmt.Errorf("below the minimum of %d bytes", least)
	}
	return bytes, err
}

// parseCores parses a number of CPUs.
func parseCores(text string) (float64, error) {
	value, err := cli.ParseShare(text)
	if err != nil {
		return 0, errors.New("must be a number of cores such as 1.5, or 150%")
	}
	if value < leastCPU {
		return 0, fmt.Errorf("must be at least %v cores", leastCPU)
	}
	return value, nil
}

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
