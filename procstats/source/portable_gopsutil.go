// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux || portable

package source

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/tachograph/tacho/procstats"
)

// openPortable returns the source of the portable_ measurements, on systems without a reader of our own: one listing
// of all processes a sample, and of each of the task's its CPU time and resident memory.
func openPortable(t Target, sel procstats.Selection) Source {
	return newPortable(t, sel, new(gopsutilListing).list)
}

// gopsutilListing lists processes through gopsutil.
type gopsutilListing struct{ known map[int32]portableProcess }

// list asks for a parent only once in the life of a process: on some systems each such question costs as much as a
// listing. A child whose parent ends is known by then.
func (g *gopsutilListing) list() ([]portableProcess, error) {
	pids, err := gopsutil.Pids()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []portableProcess
	known := make(map[int32]portableProcess)
	for _, pid := range pids {
		p, err := gopsutil.NewProcess(pid)
		if err != nil {
			continue // it has ended since
		}
		created, err := p.CreateTime()
		if err != nil {
			continue
		}
		listed, found := g.known[pid]
		if !found || listed.created != created {
			parent, err := p.Ppid()
			if err != nil {
				continue
			}
			usage := func() (portableUsage, error) { return usageOf(p) }
			listed = portableProcess{pid: int(pid), parent: int(parent), created: created, usage: usage}
		}
		known[pid] = listed
		all = append(all, listed)
	}
	g.known = known
	return all, nil
}

// startOf returns when a process started, in milliseconds since 1970; ESRCH if there is none.
func startOf(pid int) (uint64, error) {
	p, err := gopsutil.NewProcess(int32(pid))
	if errors.Is(err, gopsutil.ErrorProcessNotRunning) {
		return 0, syscall.ESRCH
	}
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	created, err := p.CreateTime()
	return uint64(created), err
}

func usageOf(p *gopsutil.Process) (portableUsage, error) {
	usage, err := readUsage(p)
	if err == nil {
		return usage, nil
	}
	if there, existsErr := gopsutil.PidExists(p.Pid); existsErr == nil && !there {
		return portableUsage{}, syscall.ESRCH
	}
	return portableUsage{}, fmt.Errorf("process %d: %w", p.Pid, err)
}

func readUsage(p *gopsutil.Process) (portableUsage, error) {
	times, err := p.Times()
	if err != nil {
		return portableUsage{}, fmt.Errorf("CPU times: %w", err)
	}
	memory, err := p.MemoryInfo()
	if err != nil {
		return portableUsage{}, fmt.Errorf("memory: %w", err)
	}
	command, err := p.Name()
	if err != nil {
		return portableUsage{}, fmt.Errorf("name: %w", err)
	}
	return portableUsage{
		cpu:     time.Duration((times.User + times.System) * float64(time.Second)),
		rss:     int64(memory.RSS),
		command: command,
	}, nil
}
