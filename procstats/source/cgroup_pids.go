// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// pidsFiles are the same on v1 and v2.
func pidsFiles() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "pids", name: "pids.current", parse: kernel.ParseSingleValue,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsCurrent}},
		},
		{
			controller: "pids", name: "pids.peak", since: "kernels older than 6.1 have no pids.peak",
			parse:  kernel.ParseSingleValue,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsPeak}},
		},
		{
			controller: "pids", name: "pids.max", since: "there is none in the root cgroup", parse: kernel.ParseSingleValue,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsMax}},
		},
		{
			controller: "pids", name: "pids.events", since: "kernels older than 4.8 have no pids.events",
			parse:  kernel.ParseFlatKeyed,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsEventsMax, key: "max"}},
		},
	}
}
