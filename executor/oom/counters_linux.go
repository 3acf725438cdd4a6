// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import "github.com/tachograph/tacho/procstats/kernel"

// counters returns the values of some keys of memory.events or memory.oom_control; ok is false if one of them is missing
// or not a number.
func counters(data []byte, keys ...string) (values []int64, ok bool) {
	fields := make([]kernel.Field, len(keys))
	for i, key := range keys {
		fields[i].Key = key
	}
	kernel.ParseFlatKeyed(data, fields)
	for _, field := range fields {
		if field.State != kernel.FieldRead {
			return nil, false
		}
		values = append(values, int64(field.Value))
	}
	return values, true
}
