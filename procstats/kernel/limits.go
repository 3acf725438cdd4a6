// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"cmp"
	"math"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/procstats"
)

// limitFile is a file of one limit.
type limitFile struct {
	name string
	// second is read behind it: v1 has the quota and its period apart.
	second string
	key    string // of the limit in the file, empty where it stands alone
	parse  FieldParser
}

// The files of limits, cgroup-v2.rst and cgroup-v1/*.rst in the kernel's documentation.
//
//nolint:gochecknoglobals // constants
var (
	memoryMax      = limitFile{name: "memory.max", parse: ParseSingleValue}
	memoryMaxV1    = limitFile{name: "memory.limit_in_bytes", parse: ParseMemoryLimitV1}
	memoryLowestV1 = limitFile{name: "memory.stat", key: "hierarchical_memory_limit", parse: ParseFlatKeyed}
	memoryHigh     = limitFile{name: "memory.high", parse: ParseSingleValue}
	memorySwapMax  = limitFile{name: "memory.swap.max", parse: ParseSingleValue}
	cpuMax         = limitFile{name: "cpu.max", parse: ParseCPUMax}
	cpuMaxV1       = limitFile{name: "cpu.cfs_quota_us", second: "cpu.cfs_period_us", parse: ParseCPUMax}
	pidsMax        = limitFile{name: "pids.max", parse: ParseSingleValue}
)

// memoryUnlimitedV1 is the smallest number that stands for no limit on v1: the largest int64, rounded down to whole
// pages, which are of 4 KiB (9223372036854771712) up to 256 KiB.
const memoryUnlimitedV1 = math.MaxInt64 &^ (256<<10 - 1)

// ParseMemoryLimitV1 reads memory.limit_in_bytes.
func ParseMemoryLimitV1(data []byte, fields []Field) {
	ParseSingleValue(data, fields)
	for i := range fields {
		if fields[i].State == FieldRead && fields[i].Value >= memoryUnlimitedV1 {
			fields[i].State = FieldUnlimited
		}
	}
}

// ReadNumber reads a cgroup file of one number, such as memory.max or memory.max_usage_in_bytes. ok is false if it
// cannot be read, and if it says that there is no limit: max on v2, the largest number of whole pages on v1.
func ReadNumber(path string) (n int64, ok bool) {
	number, ok := limitFile{name: path, parse: ParseMemoryLimitV1}.read("")
	return int64(number), ok
}

// EffectiveMemoryMax returns the lowest hard memory limit that holds for a cgroup, in bytes, and the folder that sets
// it: the group's own or that of a visible ancestor. On v1 the kernel also reports the limit of ancestors that are not
// visible; dir is empty then. ok is false where no limit is known: none is set, or the cgroup that sets one is hidden.
func EffectiveMemoryMax(c procstats.Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	own := c.V1["memory"]
	if own == "" {
		return memoryMax.lowestOf(c.V2, mounts)
	}
	dirs := cgroupAndAncestors(own, mounts)
	// Until Linux 5.11 a cgroup whose parent has use_hierarchy 0 is not charged to the parent.
	for i, parent := range dirs[1:] {
		if on, ok := ReadNumber(filepath.Join(parent, "memory.use_hierarchy")); ok && on == 0 {
			dirs = dirs[:i+1]
			break
		}
	}
	lowest, dir, ok := memoryMaxV1.lowest(dirs)
	hierarchical, known := memoryLowestV1.read(own)
	if known && hierarchical < memoryUnlimitedV1 && (!ok || hierarchical < lowest) {
		return int64(hierarchical), "", true
	}
	return int64(lowest), dir, ok
}

// EffectiveMemoryHigh returns the lowest memory.high that holds for a v2 cgroup, in bytes, and the folder that sets it:
// the group's own or that of a visible ancestor. ok is false where none is known, and always on v1, which has no such
// limit.
func EffectiveMemoryHigh(c procstats.Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	return memoryHigh.lowestOf(memoryV2(c), mounts)
}

// EffectiveMemorySwapMax returns the lowest limit on swap space that holds for a v2 cgroup, in bytes, and the folder
// that sets it: the group's own or that of a visible ancestor. ok is false where none is known, and always on v1, which
// limits swap together with memory.
func EffectiveMemorySwapMax(c procstats.Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	return memorySwapMax.lowestOf(memoryV2(c), mounts)
}

// memoryV2 returns the v2 folder of a cgroup whose memory is accounted there; empty if it is not.
func memoryV2(c procstats.Cgroup) string {
	if c.V1["memory"] != "" {
		return ""
	}
	return c.V2
}

// EffectiveCPUQuota returns the lowest CPU quota that holds for a cgroup, in cores, and the folder that sets it: the
// group's own or that of a visible ancestor. ok is false where no quota is known.
func EffectiveCPUQuota(c procstats.Cgroup, mounts []CgroupMount) (cores float64, dir string, ok bool) {
	if own := c.V1["cpu"]; own != "" {
		return cpuMaxV1.lowest(cgroupAndAncestors(own, mounts))
	}
	return cpuMax.lowest(cgroupAndAncestors(c.V2, mounts))
}

// EffectivePidsMax returns the lowest limit on processes and threads that holds for a cgroup, and the folder that sets
// it: the group's own or that of a visible ancestor, which shares it among all groups below it. ok is false where no
// limit is known.
func EffectivePidsMax(c procstats.Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	return pidsMax.lowestOf(cmp.Or(c.V1["pids"], c.V2), mounts)
}

// cgroupAndAncestors returns the folder and its visible parents; none for no folder.
func cgroupAndAncestors(dir string, mounts []CgroupMount) []string {
	if dir == "" {
		return nil
	}
	return slices.Insert(CgroupAncestors(dir, mounts), 0, dir)
}

// lowestOf returns the lowest limit of a folder and its visible parents.
func (l limitFile) lowestOf(own string, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	lowest, dir, ok := l.lowest(cgroupAndAncestors(own, mounts))
	return int64(lowest), dir, ok
}

// lowest reads the limit in every folder. Of equal ones the first, nearest to the task, counts.
func (l limitFile) lowest(dirs []string) (lowest float64, dir string, ok bool) {
	for _, d := range dirs {
		limit, set := l.read(d)
		if set && (!ok || limit < lowest) {
			lowest, dir, ok = limit, d, true
		}
	}
	return lowest, dir, ok
}

// read reads the limit of one folder; ok is false where none is set or it cannot be read.
func (l limitFile) read(dir string) (limit float64, ok bool) {
	data, err := ReadFile(filepath.Join(dir, l.name))
	if err == nil && l.second != "" {
		var second []byte
		second, err = ReadFile(filepath.Join(dir, l.second))
		data = append(data, second...)
	}
	if err != nil {
		return 0, false
	}
	fields := []Field{{Key: l.key}}
	l.parse(data, fields)
	return fields[0].Value, fields[0].State == FieldRead
}

// ParseCPUMax reads "QUOTA PERIOD", on one line (cpu.max) or on two (the two files of v1, one behind the other), and
// divides: the quota in cores. No quota is "max" in v2 and -1 in v1.
func ParseCPUMax(data []byte, fields []Field) {
	quota, rest := cutWord(data)
	period, _ := cutWord(rest)
	if len(quota) == 0 {
		return
	}
	for i := range fields {
		field := &fields[i]
		if string(quota) == "max" || string(quota) == "-1" {
			field.State = FieldUnlimited
			continue
		}
		field.State = FieldInvalid
		q, quotaOK := parseUint(quota)
		p, periodOK := parseUint(period)
		if quotaOK && periodOK && p > 0 {
			field.Value, field.State = float64(q)/float64(p), FieldRead
		}
	}
}

// cutWord splits off the first word; a word without white space behind it is cut short and does not count.
func cutWord(data []byte) (word, rest []byte) {
	data = bytes.TrimLeft(data, " \r\n")
	end := bytes.IndexAny(data, " \r\n")
	if end < 0 {
		return nil, nil
	}
	return data[:end], data[end:]
}
