// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Children lists the children of all threads of a process, from /proc/PID/task/TID/children,
// proc_pid_task_children(5). A process that is gone has none. A child can be left out while its siblings exit.
//
// A thread that ends leaves its children to another one, which may have been read by then, or be new: if the threads are not the
// same afterwards, the list is made again.
func Children(fs FS, pid int) (children []int, err error) {
	const tries = 10
	folder := filepath.Join(fs.Proc, strconv.Itoa(pid), "task")
	threads, err := threadsIn(folder)
	for try := 0; err == nil && try < tries; try++ {
		if children, err = childrenOf(folder, threads); err != nil {
			break
		}
		before := threads
		if threads, err = threadsIn(folder); slices.Equal(before, threads) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list children of process %d: %w", pid, err)
	}
	return children, nil
}

// Adopted lists the children of a process's main thread. The orphans that a subreaper is given are there while that thread lives
// (find_new_reaper in the kernel's exit.c), beside what the thread has started itself.
func Adopted(fs FS, pid int) ([]int, error) {
	thread := strconv.Itoa(pid)
	children, err := ReadPIDs(filepath.Join(fs.Proc, thread, "task", thread, "children"))
	if err != nil {
		return nil, fmt.Errorf("list adopted children of process %d: %w", pid, err)
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

// childrenOf reads the children of each thread. One that is gone has none.
func childrenOf(folder string, threads []string) (children []int, err error) {
	for _, thread := range threads {
		found, err := ReadPIDs(filepath.Join(folder, thread, "children"))
		if err != nil {
			return nil, err
		}
		children = append(children, found...)
	}
	return children, nil
}

// HasChildrenFiles returns an error where the kernel has no children files (CONFIG_PROC_CHILDREN) or they cannot be
// read.
func HasChildrenFiles(fs FS) error {
	pid := strconv.Itoa(os.Getpid())
	_, err := os.ReadFile(filepath.Join(fs.Proc, "self", "task", pid, "children"))
	return err
}

// numbersSize is room for the PIDs of most files: what is read in one piece leaves none out that was there all the time.
const numbersSize = 512

// numberBuffers are for files of numbers: those of many executors are read again and again.
//
//nolint:gochecknoglobals // memory to be used again
var numberBuffers = sync.Pool{New: func() any { return new([numbersSize]byte) }}

// ReadPIDs reads a file of PIDs, cgroup.procs or children, once. PIDs of processes outside this PID namespace, which
// the kernel prints as 0, are left out: such a process cannot be named. A file that is gone has none.
func ReadPIDs(path string) ([]int, error) {
	f, err := Open(path)
	if Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	room, _ := numberBuffers.Get().(*[numbersSize]byte)
	defer numberBuffers.Put(room)
	data, err := f.Read(room[:0])
	if err = errors.Join(err, f.Close()); Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	pids, _, err := AppendPIDs(nil, data)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return pids, nil
}
