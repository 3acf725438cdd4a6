// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// pidsFiles are the same on v1 and v2.
func pidsFiles() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "pids", name: "pids.current", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupPidsCurrent}},
		},
		{
			controller: "pids", name: "pids.peak", since: "kernels older than 6.1 have no pids.peak",
			parse:  parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupPidsPeak}},
		},
		{
			controller: "pids", name: "pids.max", since: "there is none in the root cgroup", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupPidsMax}},
		},
		{
			controller: "pids", name: "pids.events", since: "kernels older than 4.8 have no pids.events",
			parse:  parseFlatKeyed,
			fields: []cgroupFieldSpec{{id: CgroupPidsEventsMax, key: "max"}},
		},
	}
}
