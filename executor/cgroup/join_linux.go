// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenV2 opens the v2 folder for clone3(2) with CLONE_INTO_CGROUP, since Linux 5.7. ok is false where the group
// has no v2 folder.
func (g *Group) OpenV2() (dir *os.File, ok bool, err error) {
	if g.V2 == "" {
		return nil, false, nil
	}
	fd, err := unix.Open(g.V2, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, fmt.Errorf("open cgroup %s: %w", g.V2, err)
	}
	return os.NewFile(uintptr(fd), g.V2), true, nil
}

// JoinThread moves one thread of the executor into the v1 folders, so that what it forks starts there. Version 1
// allows threads of one process in different groups; memory is charged by the process, so nothing of the
// executor is charged to the task. leave moves the thread back home.
func (g *Group) JoinThread(tid int) (leave func() error, err error) {
	text := strconv.Itoa(tid)
	leave = func() error {
		var errs []error
		for controller := range g.V1 {
			if home := g.home.V1[controller]; home != "" {
				errs = append(errs, write(home, "tasks", text))
			}
		}
		return errors.Join(errs...)
	}
	for _, dir := range g.v1Folders() {
		if err := write(dir, "tasks", text); err != nil {
			return nil, errors.Join(fmt.Errorf("join cgroup: %w", err), leave())
		}
	}
	return leave, nil
}
