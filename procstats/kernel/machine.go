// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// CoreSpeed returns the mean speed of the machine's cores in MHz, from /proc/cpuinfo. It is an error where the kernel
// does not say, as on ARM.
func CoreSpeed(fs FS) (mhz float64, err error) {
	text, err := os.ReadFile(filepath.Join(fs.Proc, "cpuinfo"))
	if err != nil {
		return 0, fmt.Errorf("read speed of cores: %w", err)
	}
	return parseCPUInfo(string(text))
}

func parseCPUInfo(text string) (mhz float64, err error) {
	var sum, cores float64
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "cpu MHz" {
			continue
		}
		speed, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(speed > 0 && speed <= 1e6) { // NaN is neither
			return 0, fmt.Errorf("cpuinfo: %q is not a speed", strings.TrimSpace(line))
		}
		sum += speed
		cores++
	}
	if cores == 0 {
		return 0, fmt.Errorf("cpuinfo: no line says cpu MHz")
	}
	return sum / cores, nil
}

// Release is the release of a kernel; zero if it is not known.
type Release struct {
	Text         string // such as 6.12.9-amd64
	Major, Minor int
}

// OSRelease reads sys/kernel/osrelease below proc, proc_sys_kernel(5), or asks the kernel if there is no such file.
func OSRelease(root FS) Release {
	r := Release{Text: readWord(filepath.Join(root.Proc, "sys", "kernel"), "osrelease")}
	if r.Text == "" && root.Live {
		r.Text = ownRelease()
	}
	if _, err := fmt.Sscanf(r.Text, "%d.%d", &r.Major, &r.Minor); err != nil {
		return Release{Text: r.Text}
	}
	return r
}

// AtLeast reports whether the kernel is known to be of a version or a later one.
func (r Release) AtLeast(major, minor int) bool {
	return r.Major > major || r.Major == major && r.Minor >= minor
}

// Before reports whether the kernel is known to be older than a version.
func (r Release) Before(major, minor int) bool { return r.Major > 0 && !r.AtLeast(major, minor) }

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
	var err error
	var unwritten, total int64
	if u.buf, err = u.file.Read(u.buf); err == nil {
		unwritten, total, err = parseUnwritten(u.buf)
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", u.path, err)
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

// countersLag is how much of two counters may be missing, in bytes: of each, and on each node of memory, every CPU
// counts up to a threshold by itself, calculate_normal_threshold of mm/vmstat.c. total is the memory of the machine, 0
// if it is not known.
func countersLag(root FS, total int64) int64 {
	const counters, most, unit = 2, 125, 128 << 20
	cpus := CPUs(root)
	threshold := most
	if total > 0 {
		threshold = min(most, 2*bits.Len(uint(cpus))*(1+bits.Len64(uint64(total/unit))))
	}
	nodes := countDevices(root, "node/node[0-9]*")
	return int64(counters * threshold * cpus * max(1, nodes) * os.Getpagesize())
}

// RSSLag returns how far an RSS that the kernel counts in a process may be off, signal_struct.maxrss included: each CPU
// counts up to a batch by itself, percpu_counter_batch of lib/percpu_counter.c, which is max(32, 2 for each CPU). Since
// Linux 6.2; before, each thread counted up to 64 pages by itself.
func RSSLag(root FS) int64 {
	n := CPUs(root)
	return int64(n * max(32, 2*n) * os.Getpagesize())
}

// CPUs returns how many CPUs the machine has, those that are offline included.
func CPUs(root FS) int {
	return max(countDevices(root, "cpu/cpu[0-9]*"), runtime.NumCPU())
}

func countDevices(root FS, pattern string) int {
	found, _ := filepath.Glob(filepath.Join(root.Sys, "devices/system", pattern)) // the pattern is well-formed
	return len(found)
}

// parseUnwritten adds up lines of "KEY: NUMBER kB", proc_meminfo(5). Dirty and Writeback are in every kernel; total is
// MemTotal.
func parseUnwritten(data []byte) (sum, total int64, err error) {
	fields := [...]Field{
		{Key: "MemTotal"}, {Key: "Dirty"}, {Key: "Writeback"}, {Key: "NFS_Unstable"}, {Key: "WritebackTmp"},
	}
	parseKeyed(data, ':', kibibytes, fields[:])
	for i, f := range fields {
		if f.State == FieldInvalid || f.State == FieldMissing && (f.Key == "Dirty" || f.Key == "Writeback") {
			return 0, 0, ErrFormat
		}
		if i > 0 {
			sum += int64(f.Value)
		}
	}
	return sum, int64(fields[0].Value), nil
}
