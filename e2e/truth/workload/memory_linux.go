// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// touch returns so many bytes of anonymous memory, every page of it written to.
func touch(size int64) []byte {
	if size == 0 {
		return nil
	}
	return value(touchMapped(-1, size, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))
}

// touchShared maps a file and writes to every page of it.
func touchShared(file *os.File, size int64) []byte {
	return value(touchMapped(int(file.Fd()), size, unix.MAP_SHARED))
}

func touchMapped(fd int, size int64, flags int) ([]byte, error) {
	memory, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, flags)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	return memory, os.NewSyscallError("mmap", err)
}

func unmap(memory []byte) { check(os.NewSyscallError("munmap", unix.Munmap(memory))) }

// anon returns RssAnon of /proc/PID/status, in bytes.
func anon(pid int) int64 {
	file := fmt.Sprintf("/proc/%d/status", pid)
	for line := range strings.Lines(string(value(os.ReadFile(file)))) {
		if text, found := strings.CutPrefix(line, "RssAnon:"); found {
			text, _ = strings.CutSuffix(strings.TrimSpace(text), "kB")
			return value(strconv.ParseInt(strings.TrimSpace(text), 10, 64)) << 10
		}
	}
	check(fmt.Errorf("%s: no RssAnon", file))
	return 0
}

// spike holds 200 MiB for a tenth of a second, half a second after the start: between two samples of a second.
func (w *workload) spike() {
	const size = 200 * mib
	time.Sleep(450 * time.Millisecond)
	memory := touch(size)
	w.truth.Memory.Spike = new(int64(size))
	w.truth.Memory.MeterOffset = meterOffset(w.truth.Cgroups)
	time.Sleep(100 * time.Millisecond)
	unmap(memory)
	time.Sleep(900 * time.Millisecond)
}

// meterOffset returns how much more the memory cgroup above the task's is charged; nil where there is none. Whatever
// the task is charged itself is in both and cancels out, where nothing is charged between the readings: of a few
// attempts the one with the least of that counts.
func meterOffset(cgroups []string) (offset *int64) {
	folder, file, ok := memoryCgroup(cgroups)
	if !ok || filepath.Dir(folder) == filepath.Dir(filepath.Dir(folder)) {
		return nil
	}
	least := int64(math.MaxInt64)
	for attempt := 0; attempt < 20 && least > 0; attempt++ {
		var charges [3]int64
		for i, of := range []string{folder, filepath.Dir(folder), folder} {
			data, err := os.ReadFile(filepath.Join(of, file))
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			check(err)
			charges[i] = value(strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64))
		}
		before, above, after := charges[0], charges[1], charges[2]
		if moved := max(before, after) - min(before, after); moved < least {
			least, offset = moved, new(above-after)
		}
	}
	return offset
}

// memoryCgroup returns the folder of the memory cgroup that lines of /proc/PID/cgroup name, and the file with its
// charge.
func memoryCgroup(lines []string) (folder, file string, ok bool) {
	for _, line := range lines {
		fields := strings.SplitN(line, ":", 3)
		switch {
		case len(fields) != 3:
		case fields[1] == "memory":
			return filepath.Join("/sys/fs/cgroup/memory", fields[2]), "memory.usage_in_bytes", true
		case fields[1] == "":
			folder, file, ok = filepath.Join("/sys/fs/cgroup", fields[2]), "memory.current", true
		}
	}
	return folder, file, ok
}

// shared has nine processes that touch all of one mapping, and holds it to the end.
func (w *workload) shared() {
	const size, sharers = 256 * mib, 8
	began := time.Now()
	file := memfd(0)
	check(file.Truncate(size))
	c := w.startCrew(sharers, role{share: file, ShareSize: size})
	memory := touchShared(file, size)
	c.reported()
	w.truth.Memory.Shared = new(int64(size))
	w.noteAnon(append(c.children, &os.Process{Pid: os.Getpid()}))
	// Time for a sample that has all of it, which takes longer where to touch it did.
	time.Sleep(max(1200*time.Millisecond, time.Since(began)/2))
	c.letGo()
	// The last one to let go of so much memory works for it, which is to be accounted for.
	unmap(memory)
	check(file.Close())
}

// noteAnon adds up the anonymous memory of processes as it is now.
func (w *workload) noteAnon(of []*os.Process) {
	var sum int64
	for _, p := range of {
		sum += anon(p.Pid)
	}
	w.truth.Memory.Anon = &sum
}

// cache needs 9 MiB of its own and reads a file of 200 MiB again and again.
func (w *workload) cache() {
	const need, size, rounds = 9 * mib, 200 * mib, 3
	// Where a file is kept in memory there is nothing to take its pages back to.
	w.needDisk()
	memory := touch(need)
	file := filepath.Join(w.dir, "cached")
	writeFile(file, size, 0)
	for range rounds {
		readFile(file, 0)
	}
	w.truth.Memory.Cached = new(int64(size))
	w.noteAnon([]*os.Process{{Pid: os.Getpid()}})
	time.Sleep(time.Second)
	unmap(memory)
}
