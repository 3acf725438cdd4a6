// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// userHZ is the unit of cpuacct.stat and of /proc/PID/stat: clock ticks as user space sees them. It is part of the
// kernel's ABI and 100 on every architecture that Go runs on, whatever CONFIG_HZ is.
const userHZ = 100

// cpuacctV1 are cpuacct.usage, in nanoseconds, and cpuacct.stat, in ticks of 10 ms.
func cpuacctV1() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "cpuacct", name: "cpuacct.usage", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupCPUUsage, per: 1e9}},
		},
		{
			controller: "cpuacct", name: "cpuacct.stat", parse: parseFlatKeyed,
			fields: []cgroupFieldSpec{
				{id: CgroupCPUUser, key: "user", per: userHZ},
				{id: CgroupCPUSystem, key: "system", per: userHZ},
			},
		},
	}
}
