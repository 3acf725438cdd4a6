// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// PIDs returns the processes in the group and in groups below it, in any hierarchy: a process can be moved in one and stay
// in another. A group that is gone has none.
func (g *Group) PIDs() ([]int, error) {
	var pids []int
	for _, dir := range g.Folders() {
		more, err := pidsBelow(dir)
		if err != nil {
			return nil, fmt.Errorf("list cgroup processes: %w", err)
		}
		pids = append(pids, more...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

func pidsBelow(dir string) (pids []int, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case vanished(err):
			return nil
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		}
		members, err := readPIDs(filepath.Join(path, "cgroup.procs"))
		pids = append(pids, members...)
		return err
	})
	return pids, err
}

func readPIDs(path string) ([]int, error) {
	text, err := os.ReadFile(path)
	if vanished(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no PID", path, word)
		}
		// 0 stands for a process outside our PID namespace: it cannot be named, so it cannot be signalled.
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH)
}

// Kill sends SIGKILL to every process of the group and of groups below it, forks that race included.
// It does not wait for them to be gone. In a shared group it kills nobody.
func (g *Group) Kill() error {
	if !g.Encloses() {
		return nil
	}
	if g.V2 != "" {
		// cgroup.kill, since Linux 5.14: the kernel takes care of forks that race.
		err := write(g.V2, "cgroup.kill", "1")
		if err == nil || vanishedFolder(g.V2) {
			if len(g.V1) == 0 {
				return nil
			}
		} else if !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return g.killFrozen()
}

func vanishedFolder(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// killFrozen kills process by process. A frozen group cannot fork, so one round finds everybody; where it does not
// freeze, rounds are repeated until a list is empty.
func (g *Group) killFrozen() error {
	frozen := g.freeze()
	if frozen {
		defer g.thaw()
	}
	const rounds = 20
	for range rounds {
		pids, err := g.PIDs()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := g.killMember(pid); err != nil {
				return err
			}
		}
		if frozen {
			return nil
		}
	}
	return nil
}

// freeze stops the group's processes where a freezer is at hand, and reports whether it was.
func (g *Group) freeze() (frozen bool) {
	dir := g.V1["freezer"]
	return dir != "" && write(dir, "freezer.state", "FROZEN") == nil
}

// thaw lets them go on: on version 1 a frozen process dies of its SIGKILL only then.
func (g *Group) thaw() {
	// A group that is gone needs no thawing; nothing else can be done about an error here.
	_ = write(g.V1["freezer"], "freezer.state", "THAWED")
}

// killMember kills one process if it still is a member once a pidfd holds on to it: the number alone could have
// been used again since the list was read.
func (g *Group) killMember(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if (errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)) && g.V1["freezer"] != "" {
		// Before Linux 5.3, or behind a filter of system calls. What is frozen cannot end, and so keeps its number.
		return killFrozenMember(g.V1["freezer"], pid)
	}
	if err != nil {
		return fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	defer unix.Close(fd)
	members, err := g.PIDs()
	if err != nil {
		return err
	}
	if !slices.Contains(members, pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return nil
}

// killFrozenMember kills a member of a v1 group once it is frozen, which takes a moment.
func killFrozenMember(dir string, pid int) error {
	const rounds, pause = 100, time.Millisecond
	for round := 0; !slices.Contains(readWords(dir, "freezer.state"), "FROZEN"); round++ {
		if round == rounds {
			return fmt.Errorf("kill %d: %s does not freeze, and there are no pidfds", pid, dir)
		}
		<-time.After(pause)
	}
	members, err := readPIDs(filepath.Join(dir, procsFile))
	if err != nil || !slices.Contains(members, pid) {
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return nil
}

// Empty kills what is left, waits until nothing is, and removes the group if it is ours. It is for whoever finds
// the task of an executor that died; a live executor sees the end of its children itself.
func (g *Group) Empty(ctx context.Context) error {
	if !g.Encloses() {
		return nil
	}
	const pause = 2 * time.Millisecond
	for {
		pids, err := g.PIDs()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			err := g.Remove()
			if err == nil || !errors.Is(err, unix.EBUSY) {
				return err
			}
		} else if err := g.Kill(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("empty cgroup: %d processes left: %w", len(pids), context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
