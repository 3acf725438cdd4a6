// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "bytes"

// ParseCPUMax reads "QUOTA PERIOD", on one line (cpu.max) or on two (the two files of v1, one behind the other), and
// divides: the quota in cores. No quota is "max" in v2 and -1 in v1.
func ParseCPUMax(data []byte, fields []Field) {
	quota, rest := cutWord(data)
	period, _ := cutWord(rest)
	if len(quota) == 0 {
		return
	}
	for i := range fields {
		field := &fields[i]
		if string(quota) == "max" || string(quota) == "-1" {
			field.State = FieldUnlimited
			continue
		}
		field.State = FieldInvalid
		q, quotaOK := parseKernelUint(quota)
		p, periodOK := parseKernelUint(period)
		if quotaOK && periodOK && p > 0 {
			field.Value, field.State = float64(q)/float64(p), FieldRead
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
