// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// ProcStatm is what is used of /proc/PID/statm, proc_pid_statm(5), in pages. All of it is 0 for a process that has
// no memory any more (a zombie).
type ProcStatm struct {
	Size, Resident, Shared int64
	// Text is the size of the program's code, resident or not, without its libraries.
	Text int64
}

// ParseProcStatm reads /proc/PID/statm.
func ParseProcStatm(data []byte) (ProcStatm, error) {
	var pages [4]int64
	field, digits := 0, 0
	for _, c := range data {
		switch {
		case c >= '0' && c <= '9':
			// Bytes are counted in int64 too; no page is larger than 64 KiB.
			pages[field] = pages[field]*10 + int64(c-'0')
			if digits++; pages[field] > math.MaxInt64>>16 {
				return ProcStatm{}, ErrFormat
			}
		case c != ' ' || digits == 0:
			return ProcStatm{}, ErrFormat
		case field == len(pages)-1:
			return ProcStatm{Size: pages[0], Resident: pages[1], Shared: pages[2], Text: pages[3]}, nil
		default:
			field, digits = field+1, 0
		}
	}
	return ProcStatm{}, ErrFormat
}

// SmapsRollup is what is used of /proc/PID/smaps_rollup (since Linux 4.14), in bytes.
type SmapsRollup struct {
	// First and End are the addresses of the first byte and behind the last: processes that share their memory
	// (CLONE_VM) have the same, and so have forks of one program.
	First, End uint64
	// PSS counts each page by the share of this process in it, SwapPSS the same of what is swapped out.
	PSS, SwapPSS int64
	// PSSAnon and PSSShmem are parts of PSS (since Linux 5.4).
	PSSAnon, PSSShmem int64
	// PrivateHugetlb are huge pages of hugetlbfs that only this process maps, SharedHugetlb those that others map too:
	// neither is in PSS.
	PrivateHugetlb, SharedHugetlb int64
}

// ParseSmapsRollup requires PSS and SwapPSS: a file that lacks one is not what it seems.
func ParseSmapsRollup(data []byte) (SmapsRollup, error) {
	fields := [...]Field{
		{Key: "Pss"},
		{Key: "Pss_Anon"},
		{Key: "Pss_Shmem"},
		{Key: "Shared_Hugetlb"},
		{Key: "Private_Hugetlb"},
		{Key: "SwapPss"},
	}
	parseKeyed(data, ':', kibibytes, fields[:])
	for _, f := range fields {
		if f.State == FieldInvalid || f.State == FieldMissing && (f.Key == "Pss" || f.Key == "SwapPss") {
			return SmapsRollup{}, ErrFormat
		}
	}
	s := SmapsRollup{
		PSS: int64(fields[0].Value), PSSAnon: int64(fields[1].Value), PSSShmem: int64(fields[2].Value),
		SharedHugetlb: int64(fields[3].Value), PrivateHugetlb: int64(fields[4].Value), SwapPSS: int64(fields[5].Value),
	}
	line, _, _ := cutLine(data)
	s.First, s.End = parseRange(line)
	return s, nil
}

// parseRange reads the addresses of "55d0c0a00000-7ffc1b7fe000 ---p ..."; both are 0 in other lines.
func parseRange(line []byte) (first, end uint64) {
	low, rest, _ := cutAt(line, '-')
	high, _, _ := cutAt(rest, ' ')
	first, errFirst := strconv.ParseUint(string(low), 16, 64)
	end, errEnd := strconv.ParseUint(string(high), 16, 64)
	if errFirst != nil || errEnd != nil {
		return 0, 0
	}
	return first, end
}

// ReadAround returns how much of the files that a process maps is not resident, in bytes: the kernel reads it ahead
// around what is touched. Of each mapping at most ahead counts, and less than 2 MiB does not; nor do mappings of files
// that were removed, or are in memory. It reads the first MiB of /proc/PID/maps, and pagemap of those files: a reader
// of smaps walks all memory of a process, and keeps it from being freed when that ends meanwhile.
func ReadAround(root FS, pid int, ahead int64) (around int64, err error) {
	dir := filepath.Join(root.Proc, strconv.Itoa(pid))
	maps, errMaps := os.Open(filepath.Join(dir, "maps"))
	pages, err := os.Open(filepath.Join(dir, "pagemap"))
	defer func() { _, _ = maps.Close(), pages.Close() }() // nil if it is not open
	if err := errors.Join(errMaps, err); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(io.LimitReader(maps, 1<<20))
	for lines.Scan() {
		_, name, file := cutAt(lines.Bytes(), '/')
		if !file || bytes.HasPrefix(name, []byte("dev/")) || bytes.HasSuffix(name, []byte(" (deleted)")) {
			continue
		}
		if missing, resident := missingPages(pages, lines.Bytes(), ahead); resident && missing >= 2<<20 {
			around += min(missing, ahead)
		}
	}
	return around, lines.Err()
}

// missingPages returns how much of a mapping, a line of /proc/PID/maps, has no page of its file, in bytes, or so much
// that it is enough, and whether it has any page at all. It looks at the first 4 GiB.
func missingPages(pagemap io.ReaderAt, line []byte, enough int64) (missing int64, resident bool) {
	first, end := parseRange(line)
	buffer, page := make([]byte, 16<<10), uint64(os.Getpagesize())
	for at := first; at < min(end, first+4<<30) && (!resident || missing < max(enough, 2<<20)); at += page * 2 << 10 {
		n, _ := pagemap.ReadAt(buffer[:min(uint64(len(buffer)), (end-at)/page*8)], int64(at/page*8))
		for i := 0; i+8 <= n; i += 8 {
			const present, ofFile = 1 << 63, 1 << 61 // Documentation/admin-guide/mm/pagemap.rst
			entry := binary.NativeEndian.Uint64(buffer[i:])
			resident = resident || entry&present != 0
			if entry&(present|ofFile) != present|ofFile {
				missing += int64(page)
			}
		}
	}
	return missing, resident
}

// ReadAhead returns the most in bytes that a block device reads ahead; 0 if that is not known.
func ReadAhead(root FS) (most int64) {
	devices, _ := filepath.Glob(filepath.Join(root.Sys, "class/bdi/*")) // of a name in each, it would list each
	for _, device := range devices {
		kib, _ := ReadNumber(filepath.Join(device, "read_ahead_kb")) // 0 of a device that is gone
		most = max(most, kib<<10)
	}
	return most
}
