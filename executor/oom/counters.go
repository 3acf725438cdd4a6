// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"bytes"
	"math"
	"strconv"
)

// parseKeyed reads "KEY VALUE" lines, the format of memory.events and memory.oom_control, and returns the values of
// the keys in their order; ok is false where one of them is missing or no number.
func parseKeyed(data []byte, keys ...string) (values []int64, ok bool) {
	values = make([]int64, len(keys))
	found := 0
	for line := range bytes.Lines(data) {
		key, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte{' '})
		for i := range keys {
			if string(key) != keys[i] {
				continue
			}
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || n < 0 {
				return nil, false
			}
			values[i] = n
			found++
		}
	}
	return values, found == len(keys)
}

// parseLimit reads memory.max, memory.limit_in_bytes, memory.peak and their like; ok is false for no limit, which is
// "max" on version 2 and the largest number of whole pages on version 1.
func parseLimit(data []byte) (limit int64, ok bool) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	const largestPage = 256 << 10
	return n, err == nil && n >= 0 && n < math.MaxInt64&^(largestPage-1)
}
