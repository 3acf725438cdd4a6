// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"encoding/binary"
	"math"
)

// AppendPIDs reads the PIDs in a file of PIDs, cgroup.procs (one a line) or children (a blank after each), and
// appends them to pids. unseen counts the zeros that cgroup.procs has for processes outside the reader's PID
// namespace. An error is found before anything is appended.
func AppendPIDs(pids []int, data []byte) (all []int, unseen int, err error) {
	all = pids
	n, digits := int64(0), 0
	for i := 0; i <= len(data); i++ {
		if i < len(data) && data[i] >= '0' && data[i] <= '9' {
			n, digits = n*10+int64(data[i]-'0'), digits+1
			if n > math.MaxInt32 {
				return pids, 0, ErrFormat
			}
			continue
		}
		if i < len(data) && data[i] != '\n' && data[i] != ' ' {
			return pids, 0, ErrFormat
		}
		switch {
		case digits == 0:
		case n == 0:
			unseen++
		default:
			all = append(all, int(n))
		}
		n, digits = 0, 0
	}
	return all, unseen, nil
}

// appendNumericNames appends the names in a buffer of getdents64(2) that are numbers: PIDs in /proc, TIDs in
// /proc/PID/task. It stops at an entry that is cut short.
func appendNumericNames(numbers []int, dirents []byte) []int {
	const reclen, name = 16, 19 // offsets in struct linux_dirent64, getdents(2)
	for len(dirents) > name {
		size := int(binary.NativeEndian.Uint16(dirents[reclen:]))
		if size <= name || size > len(dirents) {
			break
		}
		text, _, _ := cutAt(dirents[name:size], 0)
		if n, ok := parseKernelUint(text); ok && n > 0 && n <= math.MaxInt32 {
			numbers = append(numbers, int(n))
		}
		dirents = dirents[size:]
	}
	return numbers
}
