// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func (s *setter) quota() error {
	if cores := s.limits.CpuCores; cores != nil {
		err := s.write("cpu", "CPU quota of "+procstats.Cores.Text(*cores),
			func(dir string) error { return s.setQuotaV1(dir, *cores) },
			func(dir string) error { return setQuotaV2(dir, *cores) })
		if err != nil {
			return err
		}
	}
	holds := s.group.Cgroup
	if own := s.group.executor.V1["cpu"]; holds.V1["cpu"] == "" && own != "" { // where the task is then
		holds = procstats.Cgroup{V1: map[string]string{"cpu": own}}
	}
	lowest, where, set := kernel.EffectiveCPUQuota(holds, s.mounts)
	s.add(procstats.CgroupCPUQuota.String(), s.limits.CpuCores, lowest, where, set)
	return nil
}

func setQuotaV2(dir string, cores float64) error {
	const file = "cpu.max"
	quota, period := quota(cores)
	value := fmt.Sprintf("%d %d", quota, period)
	return set(dir, file, value, func() (string, bool, error) {
		held, err := readText(dir, file)
		return held, held == value, err
	})
}

// setQuotaV1 sets quota and period, which have separate files on v1. There the kernel rejects a quota above that of
// an ancestor; v2 accepts it and applies the ancestor's, and so do we.
func (s *setter) setQuotaV1(dir string, cores float64) error {
	quota, period := quota(cores)
	// Without a quota any period is taken.
	if err := write(dir, "cpu.cfs_quota_us", "-1"); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	if err := setNumber(dir, "cpu.cfs_period_us", period, 1); err != nil {
		return err
	}
	err := setNumber(dir, "cpu.cfs_quota_us", quota, 1)
	if lowest, _, set := kernel.EffectiveCPUQuota(s.group.Cgroup, s.mounts); refusedBy(err) && set && lowest <= cores {
		return nil
	}
	return err
}

// weight sets the share of contended CPU, on the scale of the version at hand.
func (s *setter) weight() error {
	if s.limits.CpuWeight == nil && s.limits.CpuShares == nil {
		return nil
	}
	dir, version, err := s.folder("cpu", "CPU weight")
	if err != nil {
		return err
	}
	file, row := "cpu.weight", procstats.CgroupCPUWeight
	asked, value, _ := weightOf(s.limits)
	if version == 1 {
		file, row = "cpu.shares", procstats.CgroupCPUShares
		asked, value, _ = sharesOf(s.limits)
	}
	if err := setNumber(dir, file, value, 1); err != nil {
		return err
	}
	s.add(row.String(), &asked, float64(value), dir, true)
	return nil
}

// Files of the cpuset controller on both versions, cpuset(7).
const (
	cpusetFile = "cpuset.cpus"
	memsFile   = "cpuset.mems"
)

// cpuset binds the task to CPUs. On v1 Create has filled the group from its parent already: it takes no process
// without CPUs and memory nodes.
func (s *setter) cpuset() error {
	if s.limits.GetCpuset() == "" {
		return nil
	}
	wanted, err := ParseCPUs(s.limits.GetCpuset())
	if err != nil {
		return err
	}
	if s.group.cpuset != "" {
		if err := fillCpuset(s.group.cpuset, wanted); err != nil {
			return fmt.Errorf("fill the host's cpuset: %w", err)
		}
		held, err := readCPUs(s.group.cpuset, "cpuset.effective_cpus")
		if err != nil {
			return fmt.Errorf("read the host's cpuset: %w", err)
		}
		s.addCpuset(wanted, held, s.group.cpuset)
		return nil
	}
	dir, version, err := s.folder("cpuset", "cpuset "+s.limits.GetCpuset())
	if err != nil {
		// Orchestrators name all CPUs where a task may use any: that needs no group.
		online, onlineErr := readCPUs("/sys/devices/system/cpu", "online")
		if onlineErr == nil && slices.Equal(online, wanted) {
			if own, ok := affinity(0); ok { // the task has what its starter may use
				wanted = own
			}
			s.addCpuset(online, wanted, "")
			return nil
		}
		return err
	}
	// The kernel's own answer to a foreign CPU is EACCES on v1, and on v2 to take it and to use others.
	effectiveFile := "cpuset.cpus.effective"
	if version == 1 {
		effectiveFile = "cpuset.effective_cpus"
	}
	parent := filepath.Dir(dir)
	there, err := readCPUs(parent, effectiveFile)
	if err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	if slices.ContainsFunc(wanted, func(cpu int) bool { return !slices.Contains(there, cpu) }) {
		return newHostError("cpuset %s cannot be applied here: %s has only the CPUs %s",
			s.limits.GetCpuset(), parent, FormatCPUs(there))
	}
	err = set(dir, cpusetFile, FormatCPUs(wanted), func() (string, bool, error) {
		held, err := readCPUs(dir, effectiveFile)
		return FormatCPUs(held), slices.Equal(held, wanted), err
	})
	if err == nil {
		s.group.cpus.list = wanted
		s.addCpuset(wanted, wanted, dir)
	}
	return err
}

// fillCpuset sets the CPUs and memory nodes of a host's v1 group if they are missing, because it takes no process
// without them. A host that makes the group of a task with cores of its own leaves them to the program that starts
// the task. Existing values are the host's to change.
func fillCpuset(dir string, cpus []int) error {
	if isBlank(dir, cpusetFile) {
		if err := write(dir, cpusetFile, FormatCPUs(cpus)); err != nil {
			return err
		}
	}
	if !isBlank(dir, memsFile) {
		return nil
	}
	nodes, err := readText(filepath.Dir(dir), memsFile)
	if err != nil {
		return err
	}
	return write(dir, memsFile, nodes)
}

// isBlank reports whether a file exists and is empty.
func isBlank(dir, file string) bool {
	text, err := readText(dir, file)
	return err == nil && text == ""
}

func (s *setter) addCpuset(wanted, held []int, dir string) {
	requested, effective := float64(len(wanted)), float64(len(held))
	s.held = append(s.held, record.Limit{
		Name: cpusetFile, Requested: &requested, Effective: &effective, Where: procstats.EscapeName(dir),
		RequestedText: s.limits.GetCpuset(), EffectiveText: FormatCPUs(held),
	})
}

func readCPUs(dir, file string) ([]int, error) {
	text, err := readText(dir, file)
	if err != nil {
		return nil, err
	}
	cpus, err := ParseCPUs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, file), err)
	}
	return cpus, nil
}

const ioMax = "io.max"

// io sets the limits of block devices, and adds the lowest ones.
func (s *setter) io() error {
	requested := map[string]*float64{}
	for _, limit := range s.limits.GetIo() {
		err := s.write("io", "I/O limit of "+limit.GetDevice(),
			func(dir string) error { return s.ioV1(dir, limit) },
			func(dir string) error { return ioV2(dir, limit, requested) })
		if err != nil {
			return explainDevice(limit.GetDevice(), err)
		}
	}
	if s.group.V2 == "" {
		return nil
	}
	lowest := map[string]record.Limit{}
	for _, dir := range slices.Insert(kernel.CgroupAncestors(s.group.V2, s.mounts), 0, s.group.V2) {
		for name, limit := range readIOMax(dir) {
			if l, found := lowest[name]; !found || limit < *l.Effective {
				where := procstats.EscapeName(dir)
				lowest[name] = record.Limit{Name: name, Requested: requested[name], Effective: &limit, Where: where}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lowest)) {
		s.held = append(s.held, lowest[name])
	}
	return nil
}

// ioV2 sets the limits of a device, and notes what was requested.
func ioV2(dir string, limit *proto.IOLimit, requested map[string]*float64) error {
	var line strings.Builder
	line.WriteString(limit.GetDevice())
	for _, key := range keysOf(limit) {
		if key.value != nil {
			fmt.Fprintf(&line, " %s=%d", key.name, *key.value)
		}
	}
	if err := write(dir, ioMax, line.String()); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	all := readIOMax(dir)
	for _, key := range keysOf(limit) {
		if key.value == nil {
			continue
		}
		name := fmt.Sprintf("%s %s %s", ioMax, limit.GetDevice(), key.name)
		if held, ok := all[name]; !ok || held != float64(*key.value) {
			return newHostError("set limit: %s: wrote %q, which is not there when read back",
				filepath.Join(dir, ioMax), line.String())
		}
		requested[name] = number(key.value)
	}
	return nil
}

// ioV1 sets one file for each key. Version 1 throttles groups independently: limits of ancestors have no effect.
func (s *setter) ioV1(dir string, limit *proto.IOLimit) error {
	for _, key := range keysOf(limit) {
		if key.value == nil {
			continue
		}
		value := strconv.FormatInt(*key.value, 10)
		err := set(dir, key.fileV1, limit.GetDevice()+" "+value, func() (string, bool, error) {
			text, err := readText(dir, key.fileV1)
			held := deviceValue(text, limit.GetDevice())
			return held, held == value, err
		})
		if err != nil {
			return err
		}
		s.add(key.fileV1+" "+limit.GetDevice(), number(key.value), float64(*key.value), dir, true)
	}
	if limit.WriteBytesPerSecond != nil || limit.WriteOperationsPerSecond != nil {
		s.group.note("I/O limit of %s: cgroup v1 does not limit writes through the page cache, "+
			"only direct and synchronous ones", limit.GetDevice())
	}
	return nil
}

// readIOMax reads lines such as "8:16 rbps=2097152 wbps=max riops=max wiops=120" into limits by name, such as
// "io.max 8:16 rbps".
func readIOMax(dir string) map[string]float64 {
	all := map[string]float64{}
	text, _ := readText(dir, ioMax) // a root, and a group without the controller, has none
	for line := range strings.Lines(text) {
		device, settings, _ := strings.Cut(line, " ")
		for setting := range strings.FieldsSeq(settings) {
			key, value, _ := strings.Cut(setting, "=")
			if limit, err := strconv.ParseFloat(value, 64); err == nil {
				all[fmt.Sprintf("%s %s %s", ioMax, device, key)] = limit
			}
		}
	}
	return all
}

// deviceValue returns the text after a device in a file with one line for each.
func deviceValue(text, device string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, device+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// explainDevice says what is wrong with a device when the kernel only says ENODEV.
func explainDevice(device string, err error) error {
	if !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	sys := filepath.Join("/sys/dev/block", device)
	if _, statErr := os.Stat(sys); statErr != nil {
		return fmt.Errorf("I/O limit of %s cannot be applied here: no such block device (lsblk lists them): %w", device, err)
	}
	if _, statErr := os.Stat(filepath.Join(sys, "partition")); statErr == nil {
		// Not by filepath.Join: sys is a symbolic link, and the folder above is its target's.
		whole, _ := os.ReadFile(sys + "/../dev")
		return fmt.Errorf("I/O limit of %s cannot be applied here: "+
			"it is a partition, and the kernel limits whole devices, here %s: %w", device, strings.TrimSpace(string(whole)), err)
	}
	return err
}
