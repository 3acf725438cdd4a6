// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "bytes"

// cpuMaxV2 are the settings cpu.max and cpu.weight.
func cpuMaxV2() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "cpu", name: "cpu.max", since: "needs CONFIG_CFS_BANDWIDTH", parse: parseCPUMax,
			fields: []cgroupFieldSpec{{id: CgroupCPUQuota}},
		},
		{
			controller: "cpu", name: "cpu.weight", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupCPUWeight}},
		},
	}
}

// cpuMaxV1 are the settings that became cpu.max and, on another scale, cpu.weight.
func cpuMaxV1() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "cpu", name: "cpu.cfs_quota_us", second: "cpu.cfs_period_us",
			since: "needs CONFIG_CFS_BANDWIDTH", parse: parseCPUMax,
			fields: []cgroupFieldSpec{{id: CgroupCPUQuota}},
		},
		{
			controller: "cpu", name: "cpu.shares", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupCPUShares}},
		},
	}
}

// parseCPUMax reads "QUOTA PERIOD", on one line (cpu.max) or on two (the two files of v1, one behind the other), and
// divides: the quota in cores. No quota is "max" in v2 and -1 in v1.
func parseCPUMax(data []byte, fields []cgroupField) {
	quota, rest := cutWord(data)
	period, _ := cutWord(rest)
	if len(quota) == 0 {
		return
	}
	for i := range fields {
		field := &fields[i]
		if string(quota) == "max" || string(quota) == "-1" {
			field.state = fieldUnlimited
			continue
		}
		field.state = fieldInvalid
		q, quotaOK := parseKernelUint(quota)
		p, periodOK := parseKernelUint(period)
		if quotaOK && periodOK && p > 0 {
			field.value, field.state = float64(q)/float64(p), fieldRead
		}
	}
}

// cutWord splits off the first word; a word without white space behind it is cut short and does not count.
func cutWord(data []byte) (word, rest []byte) {
	data = bytes.TrimLeft(data, " \r\n")
	end := bytes.IndexAny(data, " \r\n")
	if end < 0 {
		return nil, nil
	}
	return data[:end], data[end:]
}
