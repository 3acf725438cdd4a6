// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
		if n, ok := parseUint(text); ok && n > 0 && n <= math.MaxInt32 {
			numbers = append(numbers, int(n))
		}
		dirents = dirents[size:]
	}
	return numbers
}

// ReadPIDs reads a file of PIDs, cgroup.procs or children, once. PIDs of processes outside this PID namespace, which
// the kernel prints as 0, are left out: such a process cannot be named. A file that is gone has none.
func ReadPIDs(path string) (pids []int, err error) {
	var room [512]byte // what is read in one piece leaves none out that was there all the time
	f, err := Open(path)
	if err == nil {
		var data []byte
		data, err = f.Read(room[:0])
		if err = errors.Join(err, f.Close()); err == nil {
			pids, _, err = AppendPIDs(nil, data)
		}
	}
	switch {
	case Gone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return pids, nil
}

// Children lists the children of all threads of a process, from /proc/PID/task/TID/children,
// proc_pid_task_children(5). A process that is gone has none. A child can be left out while its siblings exit.
//
// A thread that ends leaves its children to another one, which may have been read by then, or be new: if the threads
// are not the same afterwards, the list is made again.
func Children(fs FS, pid int) ([]int, error) {
	const tries = 10
	folder := fs.path(pid, "task")
	threads, err := threadsIn(folder)
	var children []int
	for try := 0; err == nil && try < tries; try++ {
		children = nil
		for _, thread := range threads {
			found, err := ReadPIDs(filepath.Join(folder, thread, "children"))
			if err != nil {
				return nil, fmt.Errorf("list children of process %d: %w", pid, err)
			}
			children = append(children, found...)
		}
		before := threads
		if threads, err = threadsIn(folder); slices.Equal(before, threads) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list threads of process %d: %w", pid, err)
	}
	return children, nil
}

// threadsIn lists the names in a folder of threads; none if it is gone.
func threadsIn(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !Gone(err) {
		return nil, err
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// Adopted lists the children of a process's main thread. The orphans that a subreaper is given are there while that
// thread lives (find_new_reaper in the kernel's exit.c), beside what the thread has started itself.
func Adopted(fs FS, pid int) ([]int, error) {
	children, err := ReadPIDs(fs.path(pid, filepath.Join("task", strconv.Itoa(pid), "children")))
	if err != nil {
		return nil, fmt.Errorf("list adopted children of process %d: %w", pid, err)
	}
	return children, nil
}

// HasChildrenFiles returns an error where the kernel has no children files (CONFIG_PROC_CHILDREN) or they cannot be
// read.
func HasChildrenFiles(fs FS) error {
	_, err := os.ReadFile(filepath.Join(fs.Proc, "self", "task", strconv.Itoa(os.Getpid()), "children"))
	return err
}

// Processes lists the PIDs in /proc.
func Processes(fs FS) ([]int, error) {
	entries, err := os.ReadDir(fs.Proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
