// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
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

// nomadKey is the name by which Nomad's own drivers report an invalid range of a key, which its tests ask for.
func nomadKey(key string) string {
	return map[string]string{"denied_host_uids": "deniedHostUIDs", "denied_host_gids": "deniedHostGIDs"}[key]
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
			return nil, fmt.Errorf("%s: invalid range %s %q: lower bound cannot be greater than upper bound: %w", key, nomadKey(key), part, ErrInvalid)
		}
		if errLow != nil || errHigh != nil {
			return nil, fmt.Errorf("%s: %q is neither an id nor a range of ids: %w", key, part, ErrInvalid)
		}
		ranges = append(ranges, IDRange{First: uint32(low), Last: uint32(high)})
	}
	return ranges, nil
}
