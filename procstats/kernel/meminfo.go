// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
)

// Unwritten reads how much the whole machine has yet to write to storage. The zero value reads nothing; Close it.
type Unwritten struct {
	root FS
	path string
	file File
	buf  []byte
	// lag is what the counters may miss: each CPU adds up for itself first.
	lag int64
}

// NewUnwritten returns the reader for a proc root. The file is opened with the first reading.
func NewUnwritten(root FS) Unwritten {
	return Unwritten{root: root, path: filepath.Join(root.Proc, "meminfo")}
}

// Read returns an upper bound, in bytes: dirty pages and those under writeback, also of user-space file systems, from
// /proc/meminfo, and what the kernel may not have added up yet.
func (u *Unwritten) Read() (int64, error) {
	if !u.file.IsOpen() {
		file, err := Open(u.path)
		if err != nil {
			return 0, err
		}
		u.file = file
	}
	data, err := u.file.Read(u.buf)
	u.buf = data
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", u.path, err)
	}
	unwritten, total, err := parseUnwritten(data)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", u.path, err)
	}
	if u.lag == 0 {
		u.lag = countersLag(u.root, total)
	}
	return unwritten + u.lag, nil
}

// Close gives the descriptor up.
func (u *Unwritten) Close() error { return u.file.Close() }

// Lag returns by how much the counters of /proc/meminfo may be too low; 0 before the first reading.
func (u *Unwritten) Lag() int64 { return u.lag }

// countersLag is how much of two counters may be missing, in bytes: of each, and on each node of memory, every CPU counts up to a threshold
// by itself, calculate_normal_threshold of mm/vmstat.c. total is the memory of the machine, 0 if it is not known.
func countersLag(root FS, total int64) int64 {
	const counters, most, unit = 2, 125, 128 << 20
	cpus := CPUs(root)
	threshold := most
	if total > 0 {
		threshold = min(most, 2*bits.Len(uint(cpus))*(1+bits.Len64(uint64(total/unit))))
	}
	nodes, _ := filepath.Glob(filepath.Join(root.Sys, "devices", "system", "node", "node[0-9]*")) // the pattern is well-formed
	return int64(counters * threshold * cpus * max(1, len(nodes)) * os.Getpagesize())
}

// RSSLag returns how far an RSS that the kernel counts in a process may be off, signal_struct.maxrss included: each CPU counts up to
// a batch by itself, percpu_counter_batch of lib/percpu_counter.c, which is max(32, 2 for each CPU). Since Linux 6.2; before, each
// thread counted up to 64 pages by itself.
func RSSLag(root FS) int64 {
	n := CPUs(root)
	return int64(n * max(32, 2*n) * os.Getpagesize())
}

// CPUs returns how many CPUs the machine has, those that are offline included.
func CPUs(root FS) int {
	found, _ := filepath.Glob(filepath.Join(root.Sys, "devices", "system", "cpu", "cpu[0-9]*")) // the pattern is well-formed
	return max(len(found), runtime.NumCPU())
}

// parseUnwritten adds up lines of "KEY: NUMBER kB", proc_meminfo(5). Dirty and Writeback are in every kernel; total is MemTotal.
func parseUnwritten(data []byte) (sum, total int64, err error) {
	const kibibyte = 1024
	found := 0
	for line, rest, ok := cutLine(data); ok; line, rest, ok = cutLine(rest) {
		key, value, _ := cutAt(line, ':')
		switch string(key) {
		case "Dirty", "Writeback":
			found++
		case "WritebackTmp", "NFS_Unstable", "MemTotal":
		default:
			continue
		}
		number, unit, _ := cutAt(bytes.TrimLeft(value, " "), ' ')
		n, valid := parseKernelUint(number)
		if !valid || string(unit) != "kB" {
			return 0, 0, ErrFormat
		}
		if string(key) == "MemTotal" {
			total = int64(n) * kibibyte
			continue
		}
		sum += int64(n) * kibibyte
	}
	if found != 2 {
		return 0, 0, ErrFormat
	}
	return sum, total, nil
}
