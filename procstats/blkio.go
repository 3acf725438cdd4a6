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
	const (
		needs = "needs CONFIG_BLK_DEV_THROTTLING"
		// Seen on Linux 5.4 and, for every device, since 6.10.
		noDevice = "many kernels count block I/O on cgroup v1 only on devices for which a throttle rule was set"
	)
	return []cgroupFileSpec{
		{
			controller: "blkio", name: bytesName, since: needs, parse: parseBlkio,
			fields: []cgroupFieldSpec{
				{id: CgroupBlkioRead, key: "Read", since: noDevice},
				{id: CgroupBlkioWrite, key: "Write", since: noDevice},
			},
		},
		{
			controller: "blkio", name: requestsName, since: needs, parse: parseBlkio,
			fields: []cgroupFieldSpec{
				{id: CgroupBlkioReadOperations, key: "Read", since: noDevice},
				{id: CgroupBlkioWriteOperations, key: "Write", since: noDevice},
			},
		},
	}
}

// parseBlkio sums "MAJOR:MINOR KEY VALUE" lines over all devices. The last line, "Total VALUE", has no device: a
// file of that line alone counts nothing, and its 0 says nothing about the task.
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
			if found && string(key) == fields[i].key {
				fields[i].add(value)
			}
		}
	}
}
