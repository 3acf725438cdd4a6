// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// cpuStatV2 is read from every v2 folder, also where no controller is enabled (hybrid mounts): the three times come
// from the core, the throttling counters from the cpu controller. Times are in microseconds. The periods are counted
// only while a quota is set; they are true zeros before.
func cpuStatV2() []cgroupFileSpec {
	const controller = "cpu controller not available in this cgroup"
	return []cgroupFileSpec{{
		name: "cpu.stat", since: "needs Linux 4.15",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupCPUUsage, key: "usage_usec", per: 1e6},
			{id: procstats.CgroupCPUUser, key: "user_usec", per: 1e6},
			{id: procstats.CgroupCPUSystem, key: "system_usec", per: 1e6},
			{id: procstats.CgroupCPUPeriods, key: "nr_periods", since: controller},
			{id: procstats.CgroupCPUThrottledPeriods, key: "nr_throttled", since: controller},
			{id: procstats.CgroupCPUThrottled, key: "throttled_usec", per: 1e6, since: controller},
		},
	}}
}

// cpuStatV1 has the throttling alone, in nanoseconds; the times are in cpuacct.usage and cpuacct.stat.
func cpuStatV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "cpu", name: "cpu.stat", since: "needs CONFIG_CFS_BANDWIDTH",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupCPUPeriods, key: "nr_periods"},
			{id: procstats.CgroupCPUThrottledPeriods, key: "nr_throttled"},
			{id: procstats.CgroupCPUThrottled, key: "throttled_time", per: 1e9},
		},
	}}
}

// userHZ is the unit of cpuacct.stat and of /proc/PID/stat: clock ticks as user space sees them. It is part of the
// kernel's ABI and 100 on every architecture that Go runs on, whatever CONFIG_HZ is.
const userHZ = 100

// cpuacctV1 are cpuacct.usage, in nanoseconds, and cpuacct.stat, in ticks of 10 ms.
func cpuacctV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "cpuacct", name: "cpuacct.usage",
		fields: []cgroupFieldSpec{{id: procstats.CgroupCPUUsage, per: 1e9}},
	}, {
		controller: "cpuacct", name: "cpuacct.stat",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupCPUUser, key: "user", per: userHZ},
			{id: procstats.CgroupCPUSystem, key: "system", per: userHZ},
		},
	}}
}

// cpuMaxV2 are the settings cpu.max and cpu.weight.
func cpuMaxV2() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "cpu", name: "cpu.max", setting: true, since: "needs CONFIG_CFS_BANDWIDTH", parse: kernel.ParseCPUMax,
		fields: []cgroupFieldSpec{{id: procstats.CgroupCPUQuota}},
	}, {
		controller: "cpu", name: "cpu.weight", setting: true,
		fields: []cgroupFieldSpec{{id: procstats.CgroupCPUWeight}},
	}}
}

// cpuMaxV1 are the settings that became cpu.max and, on another scale, cpu.weight.
func cpuMaxV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "cpu", name: "cpu.cfs_quota_us", second: "cpu.cfs_period_us", setting: true,
		since: "needs CONFIG_CFS_BANDWIDTH", parse: kernel.ParseCPUMax,
		fields: []cgroupFieldSpec{{id: procstats.CgroupCPUQuota}},
	}, {
		controller: "cpu", name: "cpu.shares", setting: true,
		fields: []cgroupFieldSpec{{id: procstats.CgroupCPUShares}},
	}}
}
