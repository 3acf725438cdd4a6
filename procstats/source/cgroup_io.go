// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// ioStatV2 has one line for each device that the cgroup used, so an empty file is a true 0.
func ioStatV2(devices *kernel.BlockDevices) []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "io", name: "io.stat",
		own: func() kernel.FieldParser { return kernel.NewIOStat(devices).Parse },
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupIORead, key: "rbytes"},
			{id: procstats.CgroupIOWrite, key: "wbytes"},
			{id: procstats.CgroupIOReadOperations, key: "rios"},
			{id: procstats.CgroupIOWriteOperations, key: "wios"},
		},
	}}
}

// blkioV1 are the counters of blk-throttle, the layer that sees requests of every I/O scheduler, of the folder and
// all below it.
func blkioV1(devices *kernel.BlockDevices) []cgroupFileSpec {
	const (
		bytesName    = "blkio.throttle.io_service_bytes_recursive"
		requestsName = "blkio.throttle.io_serviced_recursive"
		needs        = "needs CONFIG_BLK_DEV_THROTTLING"
	)
	return []cgroupFileSpec{{
		controller: "blkio", name: bytesName, since: needs, parse: devices.ParseBlkio,
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupBlkioRead, key: "Read", missing: blkioCountsNothing(bytesName)},
			{id: procstats.CgroupBlkioWrite, key: "Write", missing: blkioCountsNothing(bytesName)},
		},
	}, {
		controller: "blkio", name: requestsName, since: needs, parse: devices.ParseBlkio,
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupBlkioReadOperations, key: "Read", missing: blkioCountsNothing(requestsName)},
			{id: procstats.CgroupBlkioWriteOperations, key: "Write", missing: blkioCountsNothing(requestsName)},
		},
	}}
}

// blkioCountsNothing words what a 0 of blk-throttle means. Most kernels pass requests by its counters unless a
// throttle rule for their device and direction exists: 6.1 shows lines of zeros then, 6.10 and later no line at all.
func blkioCountsNothing(file string) string {
	return file + " has counted nothing: most kernels count block I/O on cgroup v1 only where a throttle rule is set"
}
