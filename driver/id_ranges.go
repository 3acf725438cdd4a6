// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"strconv"
	"strings"
)

// IDRange is the user or group ids from First to Last, both included.
type IDRange struct {
	First, Last uint32
}

// IDRanges are user or group ids that are not allowed.
type IDRanges []IDRange

// Has reports whether id is in one of the ranges.
func (rs IDRanges) Has(id uint32) bool {
	for _, r := range rs {
		if r.First <= id && id <= r.Last {
			return true
		}
	}
	return false
}

// parseIDRanges reads a list such as "0, 10-15". key is what the user calls it.
func parseIDRanges(key, list string) (IDRanges, error) {
	var ranges IDRanges
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, errLow := strconv.ParseUint(strings.TrimSpace(first), 10, 32)
		high, errHigh := strconv.ParseUint(strings.TrimSpace(last), 10, 32)
		if low > high && errLow == nil && errHigh == nil {
			return nil, invalid("%s: invalid range %q: lower bound cannot be greater than upper bound", key, part)
		}
		if errLow != nil || errHigh != nil {
			return nil, invalid("%s: %q is neither an id nor a range of ids", key, part)
		}
		ranges = append(ranges, IDRange{First: uint32(low), Last: uint32(high)})
	}
	return ranges, nil
}
