// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "bytes"

// blkioV1 are the counters of blk-throttle, the layer that sees requests of every I/O scheduler, of the folder and
// all below it (recursive, since Linux 5.0) or, where that is missing, of the folder alone.
func blkioV1(recursive bool) []cgroupFileSpec {
	const suffix = "_recursive"
	bytesName, requestsName := "blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"
	if recursive {
		bytesName, requestsName = bytesName+suffix, requestsName+suffix
	}
	const needs = "needs CONFIG_BLK_DEV_THROTTLING"
	return []cgroupFileSpec{
		{
			controller: "blkio", name: bytesName, since: needs, parse: parseBlkio,
			fields: []cgroupFieldSpec{
				{id: CgroupBlkioRead, key: "Read", missing: blkioCountsNothing(bytesName)},
				{id: CgroupBlkioWrite, key: "Write", missing: blkioCountsNothing(bytesName)},
			},
		},
		{
			controller: "blkio", name: requestsName, since: needs, parse: parseBlkio,
			fields: []cgroupFieldSpec{
				{id: CgroupBlkioReadOperations, key: "Read", missing: blkioCountsNothing(requestsName)},
				{id: CgroupBlkioWriteOperations, key: "Write", missing: blkioCountsNothing(requestsName)},
			},
		},
	}
}

// blkioCountsNothing words what a 0 of blk-throttle means. Most kernels pass requests by its counters unless a
// throttle rule for their device and direction exists: 6.1 shows lines of zeros then, 6.10 and later no line at all.
func blkioCountsNothing(file string) string {
	return file + " has counted nothing: most kernels count block I/O on cgroup v1 only where a throttle rule is set"
}

// parseBlkio sums "MAJOR:MINOR KEY VALUE" lines over all devices and leaves sums of 0 missing: they say nothing about
// the task. The last line, "Total VALUE", has no device.
func parseBlkio(data []byte, fields []cgroupField) {
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			for i := range fields {
				fields[i].state = fieldInvalid
			}
			return
		}
		data = rest
		_, operation, _ := bytes.Cut(line, []byte{' '})
		key, value, found := bytes.Cut(operation, []byte{' '})
		for i := range fields {
			if found && string(key) == fields[i].key && string(value) != "0" {
				fields[i].add(value)
			}
		}
	}
}
