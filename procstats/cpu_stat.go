// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// cpuStatV2 is read from every v2 folder, also where no controller is enabled (hybrid mounts): the three times come
// from the core, the throttling counters from the cpu controller. Times are in microseconds. The periods are counted
// only while a quota is set; they are true zeros before.
func cpuStatV2() []cgroupFileSpec {
	const controller = "cpu controller not available in this cgroup"
	return []cgroupFileSpec{{
		name: "cpu.stat", since: "needs Linux 4.15", parse: parseFlatKeyed,
		fields: []cgroupFieldSpec{
			{id: CgroupCPUUsage, key: "usage_usec", per: 1e6},
			{id: CgroupCPUUser, key: "user_usec", per: 1e6},
			{id: CgroupCPUSystem, key: "system_usec", per: 1e6},
			{id: CgroupCPUPeriods, key: "nr_periods", since: controller},
			{id: CgroupCPUThrottledPeriods, key: "nr_throttled", since: controller},
			{id: CgroupCPUThrottled, key: "throttled_usec", per: 1e6, since: controller},
		},
	}}
}

// cpuStatV1 has the throttling alone, in nanoseconds; the times are in cpuacct.usage and cpuacct.stat.
func cpuStatV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "cpu", name: "cpu.stat", since: "needs CONFIG_CFS_BANDWIDTH", parse: parseFlatKeyed,
		fields: []cgroupFieldSpec{
			{id: CgroupCPUPeriods, key: "nr_periods"},
			{id: CgroupCPUThrottledPeriods, key: "nr_throttled"},
			{id: CgroupCPUThrottled, key: "throttled_time", per: 1e9},
		},
	}}
}
