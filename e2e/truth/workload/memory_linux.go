// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"bytes"
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
func touch(size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	return touchMapped(-1, size, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

// touchShared maps a file and writes to every page of it.
func touchShared(file *os.File, size int64) ([]byte, error) {
	return touchMapped(int(file.Fd()), size, unix.MAP_SHARED)
}

func touchMapped(fd int, size int64, flags int) ([]byte, error) {
	memory, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	return memory, nil
}

// anon returns RssAnon of /proc/PID/status, in bytes.
func anon(pid int) (int64, error) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "RssAnon:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no RssAnon", file)
}

// spike holds 200 MiB for a tenth of a second, half a second after the start: between two samples of a second.
func (w *workload) spike() error {
	const size = 200 * mib
	time.Sleep(450 * time.Millisecond)
	memory, err := touch(size)
	if err != nil {
		return err
	}
	w.truth.Memory.Spike = new(int64(size))
	if w.truth.Memory.MeterOffset, err = meterOffset(w.truth.Cgroups); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond)
	if err := unix.Munmap(memory); err != nil {
		return fmt.Errorf("munmap: %w", err)
	}
	time.Sleep(900 * time.Millisecond)
	return nil
}

// meterOffset returns how much more the memory cgroup above the task's is charged; nil where there is none. Whatever the
// task is charged itself is in both and cancels out, where nothing is charged between the readings: of a few attempts the
// one with the least of that counts.
func meterOffset(cgroups []string) (*int64, error) {
	folder, file, ok := memoryCgroup(cgroups)
	if !ok || filepath.Dir(folder) == filepath.Dir(filepath.Dir(folder)) {
		return nil, nil
	}
	const attempts = 20
	var offset *int64
	least := int64(math.MaxInt64)
	for range attempts {
		var charges [3]int64
		for i, of := range []string{folder, filepath.Dir(folder), folder} {
			var err error
			if charges[i], err = readInt(filepath.Join(of, file)); errors.Is(err, os.ErrNotExist) {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
		}
		before, above, after := charges[0], charges[1], charges[2]
		if moved := max(before, after) - min(before, after); moved < least {
			least, offset = moved, new(above-after)
		}
		if least == 0 {
			break
		}
	}
	return offset, nil
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

func readInt(file string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return n, nil
}

// shared has nine processes that touch all of one mapping, and holds it to the end.
func (w *workload) shared() error {
	const size, sharers = 256 * mib, 8
	fd, err := unix.MemfdCreate("shared", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "shared")
	if err := file.Truncate(size); err != nil {
		return err
	}
	c, err := w.startCrew(sharers, role{share: file, shareSize: size})
	if err != nil {
		return err
	}
	memory, err := touchShared(file, size)
	if err != nil {
		return err
	}
	if err := c.reported(); err != nil {
		return err
	}
	w.truth.Memory.Shared = new(int64(size))
	if err := w.noteAnon(append(c.children, &os.Process{Pid: os.Getpid()})); err != nil {
		return err
	}
	time.Sleep(1200 * time.Millisecond)
	if err := c.letGo(); err != nil {
		return err
	}
	// The last one to let go of so much memory works for it, which is to be accounted for.
	return errors.Join(unix.Munmap(memory), file.Close())
}

// noteAnon adds up the anonymous memory of processes as it is now.
func (w *workload) noteAnon(of []*os.Process) error {
	var sum int64
	for _, p := range of {
		bytes, err := anon(p.Pid)
		if err != nil {
			return err
		}
		sum += bytes
	}
	w.truth.Memory.Anon = &sum
	return nil
}

// cache needs 9 MiB of its own and reads a file of 200 MiB again and again.
func (w *workload) cache() error {
	const need, size, rounds = 9 * mib, 200 * mib, 3
	// Where a file is kept in memory there is nothing to take its pages back to.
	if err := w.onDisk(); err != nil {
		return err
	}
	memory, err := touch(need)
	if err != nil {
		return err
	}
	file := filepath.Join(w.dir, "cached")
	if err := writeFile(file, size, 0); err != nil {
		return err
	}
	for range rounds {
		if err := readFile(file, 0); err != nil {
			return err
		}
	}
	w.truth.Memory.Cached = new(int64(size))
	if err := w.noteAnon([]*os.Process{{Pid: os.Getpid()}}); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return unix.Munmap(memory)
}
