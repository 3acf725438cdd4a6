// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "bytes"

// ioStatV2 has one line for each device that the cgroup used, so an empty file is a true 0.
func ioStatV2() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "io", name: "io.stat", parse: parseIOStat,
		fields: []cgroupFieldSpec{
			{id: CgroupIORead, key: "rbytes"},
			{id: CgroupIOWrite, key: "wbytes"},
			{id: CgroupIOReadOperations, key: "rios"},
			{id: CgroupIOWriteOperations, key: "wios"},
		},
	}}
}

// parseIOStat sums "MAJOR:MINOR KEY=VALUE KEY=VALUE" lines over all devices. Lines that name a device and have no
// numbers are real: kernels up to 5.x print them for devices without I/O.
func parseIOStat(data []byte, fields []cgroupField) {
	for i := range fields {
		fields[i].value, fields[i].state = 0, fieldRead
	}
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			for i := range fields {
				fields[i].state = fieldInvalid
			}
			return
		}
		data = rest
		for len(line) > 0 {
			var word []byte
			word, line, _ = bytes.Cut(line, []byte{' '})
			key, value, found := bytes.Cut(word, []byte{'='})
			for i := range fields {
				if found && string(key) == fields[i].key {
					fields[i].add(value)
				}
			}
		}
	}
}
