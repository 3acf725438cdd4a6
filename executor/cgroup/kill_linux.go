// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// PIDs returns the processes in the group and in groups below it, in any hierarchy: a process can be moved in one and
// stay in another. A group that is gone has no processes.
func (g *Group) PIDs() ([]int, error) {
	var pids []int
	for _, dir := range g.Folders() {
		more, err := kernel.ListCgroup(dir)
		if err != nil {
			return nil, fmt.Errorf("list cgroup processes: %w", err)
		}
		pids = append(pids, more...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Kill sends SIGKILL to every process of the group and of groups below it, including forks that race. It does not
// wait for their end. It kills nothing in a shared group.
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

const freezerState = "freezer.state"

// killFrozen kills process by process. A frozen group cannot fork, so one round finds every process. Version 2, which
// freezes since Linux 5.2, does so a little after it was told: there, and without a freezer, rounds are repeated until
// the list is empty.
func (g *Group) killFrozen() error {
	dir := g.V1["freezer"]
	frozen := dir != "" && write(dir, freezerState, "FROZEN") == nil
	// A process that version 1 has frozen dies of its SIGKILL once it is thawed. A group that is gone needs no thawing,
	// and nothing else can be done about an error.
	switch {
	case frozen:
		defer func() { _ = write(dir, freezerState, "THAWED") }()
	case g.V2 != "" && write(g.V2, "cgroup.freeze", "1") == nil:
		defer func() { _ = write(g.V2, "cgroup.freeze", "0") }()
	}
	const rounds = 20
	for range rounds {
		pids, err := g.PIDs()
		if err != nil || len(pids) == 0 {
			return err
		}
		for batch := range slices.Chunk(pids, maxHeld) {
			if err := g.killMembers(batch); err != nil {
				return err
			}
		}
		if frozen {
			return nil
		}
	}
	return nil
}

// maxHeld bounds the processes that are held at once: each takes a descriptor.
const maxHeld = 256

// killMembers kills the listed processes that are still members once they are held. The numbers could have been
// reused since the list was read, so it holds them first, and then lists the members again.
func (g *Group) killMembers(pids []int) (err error) {
	members := pids
	isMember := func(pid int) bool {
		_, found := slices.BinarySearch(members, pid)
		return found
	}
	held := make([]*process.Process, 0, len(pids))
	defer func() {
		for _, p := range held {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue // a thread of this process is there to start one: version 1 lists its process
		}
		p, err := process.Hold(pid, func() bool { return isMember(pid) }, nil)
		if err == nil {
			held = append(held, p)
		} else if !errors.Is(err, process.ErrGone) {
			return fmt.Errorf("kill member of cgroup: %w", err)
		}
	}
	if members, err = g.PIDs(); err != nil {
		return err
	}
	for _, p := range held {
		if !isMember(p.PID()) {
			continue
		}
		if err := p.Signal(unix.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}

// Empty kills the remaining processes, waits until they are gone, and removes the group if it is ours. It is for
// callers that find the task of an executor that died; a live executor sees the end of its children itself.
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
			return fmt.Errorf("empty cgroup: %s left: %w", procstats.Counted(len(pids), "process", "processes"),
				context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
