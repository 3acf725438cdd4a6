// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
)

// CgroupAncestors returns the visible parents of a cgroup's folder, the nearest first, up to and with the point at
// which its hierarchy is mounted; none where dir is such a point, or below no mount.
func CgroupAncestors(dir string, mounts []CgroupMount) []string {
	point := ""
	for _, mount := range mounts {
		if within(mount.Point, dir) && len(mount.Point) > len(point) {
			point = mount.Point
		}
	}
	if point == "" {
		return nil
	}
	var parents []string
	for dir = filepath.Clean(dir); dir != point; {
		dir = filepath.Dir(dir)
		parents = append(parents, dir)
	}
	return parents
}

// EffectiveMemoryMax returns the lowest hard memory limit that holds for a cgroup, in bytes, and the folder that sets
// it: the group's own or that of a visible ancestor. On v1 the kernel also tells the limit of ancestors that are not
// visible; dir is empty then. ok is false where no limit is known: none is set, or whoever set one is hidden.
func EffectiveMemoryMax(c Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	own := c.V1["memory"]
	if own == "" {
		lowest, dir, ok := lowestLimit(cgroupAndAncestors(c.V2, mounts), memoryCurrentV2(), CgroupMemoryMax)
		return int64(lowest), dir, ok
	}
	dirs := cgroupAndAncestors(own, mounts)
	// Until Linux 5.11 a cgroup of which the parent has use_hierarchy 0 is not charged to the parent.
	for i, parent := range dirs[1:] {
		content, err := os.ReadFile(filepath.Join(parent, "memory.use_hierarchy"))
		if err == nil && bytes.HasPrefix(content, []byte("0")) {
			dirs = dirs[:i+1]
			break
		}
	}
	lowest, dir, ok := lowestLimit(dirs, memoryCurrentV1(), CgroupMemoryMax)
	kernel, known := readCgroupValue(own, hierarchicalLimitV1(), CgroupMemoryMax)
	if known && kernel < memoryUnlimitedV1 && (!ok || kernel < lowest) {
		return int64(kernel), "", true
	}
	return int64(lowest), dir, ok
}

// hierarchicalLimitV1 is the kernel's own minimum over a cgroup and all its ancestors.
func hierarchicalLimitV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.stat", parse: parseFlatKeyed,
		fields: []cgroupFieldSpec{{id: CgroupMemoryMax, key: "hierarchical_memory_limit"}},
	}}
}

// EffectiveMemoryHigh returns the lowest memory.high that holds for a v2 cgroup, in bytes, and the folder that sets it:
// the group's own or that of a visible ancestor. ok is false where none is known, and always on v1, which has no such
// limit.
func EffectiveMemoryHigh(c Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	return lowestMemoryV2(c, mounts, memoryCurrentV2(), CgroupMemoryHigh)
}

// EffectiveMemorySwapMax returns the lowest limit on swap space that holds for a v2 cgroup, in bytes, and the folder
// that sets it: the group's own or that of a visible ancestor. ok is false where none is known, and always on v1, which
// limits swap together with memory.
func EffectiveMemorySwapMax(c Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	return lowestMemoryV2(c, mounts, memorySwapV2(), CgroupMemorySwapMax)
}

func lowestMemoryV2(c Cgroup, mounts []CgroupMount, specs []cgroupFileSpec, id ID) (limit int64, dir string, ok bool) {
	if c.V1["memory"] != "" {
		return 0, "", false
	}
	lowest, dir, ok := lowestLimit(cgroupAndAncestors(c.V2, mounts), specs, id)
	return int64(lowest), dir, ok
}

// EffectiveCPUQuota returns the lowest CPU quota that holds for a cgroup, in cores, and the folder that sets it: the
// group's own or that of a visible ancestor. ok is false where no quota is known.
func EffectiveCPUQuota(c Cgroup, mounts []CgroupMount) (cores float64, dir string, ok bool) {
	if own := c.V1["cpu"]; own != "" {
		return lowestLimit(cgroupAndAncestors(own, mounts), cpuMaxV1(), CgroupCPUQuota)
	}
	return lowestLimit(cgroupAndAncestors(c.V2, mounts), cpuMaxV2(), CgroupCPUQuota)
}

// EffectivePidsMax returns the lowest limit on processes and threads that holds for a cgroup, and the folder that sets
// it: the group's own or that of a visible ancestor, which shares it among all groups below it. ok is false where no
// limit is known.
func EffectivePidsMax(c Cgroup, mounts []CgroupMount) (limit int64, dir string, ok bool) {
	own := c.V1["pids"]
	if own == "" {
		own = c.V2
	}
	lowest, dir, ok := lowestLimit(cgroupAndAncestors(own, mounts), pidsFiles(), CgroupPidsMax)
	return int64(lowest), dir, ok
}

// cgroupAndAncestors returns the folder and its visible parents; none for no folder.
func cgroupAndAncestors(dir string, mounts []CgroupMount) []string {
	if dir == "" {
		return nil
	}
	return slices.Insert(CgroupAncestors(dir, mounts), 0, dir)
}

// lowestLimit reads a limit in every folder. Of equal ones the first, nearest to the task, has the say.
func lowestLimit(dirs []string, specs []cgroupFileSpec, id ID) (lowest float64, dir string, ok bool) {
	for _, d := range dirs {
		limit, set := readCgroupValue(d, specs, id)
		if set && (!ok || limit < lowest) {
			lowest, dir, ok = limit, d, true
		}
	}
	return lowest, dir, ok
}

// readCgroupValue reads one measurement of one folder, once; ok is false where it is absent.
func readCgroupValue(dir string, specs []cgroupFileSpec, id ID) (value float64, ok bool) {
	wanted := func(other ID) bool { return other == id }
	for i := range specs {
		if !slices.ContainsFunc(specs[i].fields, func(f cgroupFieldSpec) bool { return wanted(f.id) }) {
			continue
		}
		f := openCgroupFile(dir, &specs[i], wanted, nil)
		f.collect(nil)
		value, ok = f.fields[0].reading().Number()
		_ = f.close()
		return value, ok
	}
	return 0, false
}
