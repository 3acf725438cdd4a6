// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"math"
)

// SmapsRollup is what is used of /proc/PID/smaps_rollup (since Linux 4.14), in bytes.
type SmapsRollup struct {
	// First and End are the addresses of the first byte and behind the last: processes that share their memory
	// (CLONE_VM) have the same, and so have forks of one program.
	First, End uint64
	// PSS counts each page by the share of this process in it, SwapPSS the same of what is swapped out.
	PSS, SwapPSS int64
	// PSSAnon and PSSShmem are parts of PSS; HaveParts reports that the kernel has them (since Linux 5.4).
	PSSAnon, PSSShmem int64
	HaveParts         bool
	// PrivateHugetlb are huge pages of hugetlbfs that only this process maps, SharedHugetlb those that others map too:
	// neither is in PSS.
	PrivateHugetlb, SharedHugetlb int64
}

// ParseSmapsRollup requires PSS and SwapPSS: a file that lacks one is not what it seems.
func ParseSmapsRollup(data []byte) (SmapsRollup, error) {
	var s SmapsRollup
	first, _, _ := cutLine(data)
	s.setRange(first)
	found := 0
	for {
		line, rest, ok := cutLine(data)
		if !ok {
			break
		}
		data = rest
		key, value, _ := cutAt(line, ':')
		field := s.field(key)
		if field == nil {
			continue
		}
		if *field, ok = parseKiB(value); !ok {
			return SmapsRollup{}, ErrFormat
		}
		if field == &s.PSS || field == &s.SwapPSS {
			found++
		}
		s.HaveParts = s.HaveParts || field == &s.PSSAnon
	}
	if found != 2 {
		return SmapsRollup{}, ErrFormat
	}
	return s, nil
}

// field returns where the value of a key belongs; nil for one that is not used.
func (s *SmapsRollup) field(key []byte) *int64 {
	switch string(key) {
	case "Pss":
		return &s.PSS
	case "SwapPss":
		return &s.SwapPSS
	case "Pss_Anon":
		return &s.PSSAnon
	case "Pss_Shmem":
		return &s.PSSShmem
	case "Private_Hugetlb":
		return &s.PrivateHugetlb
	case "Shared_Hugetlb":
		return &s.SharedHugetlb
	}
	return nil
}

// setRange reads "55d0c0a00000-7ffc1b7fe000 ---p ...", the first line. Addresses that are not there stay 0.
func (s *SmapsRollup) setRange(line []byte) {
	first, rest, _ := cutAt(line, '-')
	end, _, _ := cutAt(rest, ' ')
	low, ok := parseHex(first)
	high, okEnd := parseHex(end)
	if ok && okEnd {
		s.First, s.End = low, high
	}
}

// parseHex reads an address as the kernel prints it.
func parseHex(digits []byte) (n uint64, ok bool) {
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		n = n<<4 | uint64(c)
	}
	return n, len(digits) > 0 && len(digits) <= 16
}

// parseKiB reads "   1234 kB", where the kernel means KiB.
func parseKiB(value []byte) (n int64, ok bool) {
	digits, ok := bytes.CutSuffix(bytes.TrimLeft(value, " "), []byte(" kB"))
	if !ok {
		return 0, false
	}
	kib, ok := parseKernelUint(digits)
	if !ok || kib > math.MaxInt64>>10 {
		return 0, false
	}
	return int64(kib) << 10, true
}
