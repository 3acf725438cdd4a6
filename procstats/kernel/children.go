// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Children lists the children of all threads of a process, from /proc/PID/task/TID/children,
// proc_pid_task_children(5). A process that is gone has none. A child can be left out while its siblings exit.
func Children(fs FS, pid int) ([]int, error) {
	folder := filepath.Join(fs.Proc, strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(folder)
	if Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list children of process %d: %w", pid, err)
	}
	var children []int
	for _, thread := range threads {
		// A thread that is gone has left its children to another one, and they are found there.
		found, err := ReadPIDs(filepath.Join(folder, thread.Name(), "children"))
		if err != nil {
			return nil, fmt.Errorf("list children of process %d: %w", pid, err)
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

// ReadPIDs reads a file of PIDs, cgroup.procs or children, once. PIDs of processes outside this PID namespace, which
// the kernel prints as 0, are left out: such a process cannot be named. A file that is gone has none.
func ReadPIDs(path string) ([]int, error) {
	data, err := os.ReadFile(path)
	if Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pids, _, err := AppendPIDs(nil, data)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return pids, nil
}
