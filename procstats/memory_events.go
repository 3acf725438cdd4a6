// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// memoryEventsV2 covers the folder and all below it, unless cgroup2 is mounted with memory_localevents.
func memoryEventsV2() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.events", parse: parseFlatKeyed,
		fields: []cgroupFieldSpec{
			{id: CgroupMemoryEventsLow, key: "low"},
			{id: CgroupMemoryEventsHigh, key: "high"},
			{id: CgroupMemoryEventsMax, key: "max"},
			{id: CgroupMemoryEventsOOM, key: "oom"},
			{id: CgroupMemoryEventsOOMKill, key: "oom_kill", since: "kernels older than 4.13 do not report it"},
			{id: CgroupMemoryEventsOOMGroupKill, key: "oom_group_kill", since: "kernels older than 5.17 do not report it"},
		},
	}}
}

// memoryOOMControlV1 counts kills in the folder itself; v1 does not carry them up from nested cgroups.
func memoryOOMControlV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.oom_control", parse: parseFlatKeyed,
		fields: []cgroupFieldSpec{
			{id: CgroupMemoryEventsOOMKill, key: "oom_kill", since: "kernels older than 4.13 do not report it"},
		},
	}}
}
