// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// memoryEvents are the counters of cgroup version 2, Documentation/admin-guide/cgroup-v2.rst "Memory Interface
// Files". memory.events of a group counts what happened in it and below it, memory.events.local (since Linux 5.2)
// only what its own limit led to. Both can be polled for EPOLLPRI; reading the same descriptor acknowledges.
type memoryEvents struct {
	own, local eventsFile
	above      []eventsFile
	// nested counts what happens below the task's group where memory.events does not.
	nested *nestedKills
}

// eventsFile is a kept-open file of counters; the zero one is closed. It is a bare descriptor: the runtime's poller
// would take its events for itself.
type eventsFile struct{ number int }

func openEvents(dir, name string) (eventsFile, error) {
	path := filepath.Join(dir, name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return eventsFile{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return eventsFile{number: fd + 1}, nil
}

func (f eventsFile) isOpen() bool { return f.number != 0 }

func (f eventsFile) fd() int { return f.number - 1 }

// read returns the values of keys; every one of them has to be there.
func (f eventsFile) read(keys ...string) ([]int64, error) {
	var buffer [1024]byte
	n, err := unix.Pread(f.fd(), buffer[:], 0)
	if err != nil {
		return nil, fmt.Errorf("read memory.events: %w", err)
	}
	values, ok := parseKeyed(buffer[:n], keys...)
	if !ok {
		return nil, errors.New("read memory.events: a counter is missing")
	}
	return values, nil
}

func (f eventsFile) close() error {
	if !f.isOpen() {
		return nil
	}
	return unix.Close(f.fd())
}

// openMemoryEvents opens the files of the task and of every group above it that has them: the root has none.
func openMemoryEvents(g groups, local bool) (layout, []*watch, error) {
	m := &memoryEvents{}
	var err error
	if m.own, err = openEvents(g.own, "memory.events"); err != nil {
		return nil, nil, err
	}
	if m.local, err = openEvents(g.own, "memory.events.local"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(err, m.close())
	}
	if local {
		m.nested = newNestedV2(g.own)
	}
	watches := []*watch{newWatch(m.own.fd(), unix.EPOLLPRI, taskPause)}
	for _, dir := range g.above {
		f, err := openEvents(dir, "memory.events.local")
		if err == nil {
			watches = append(watches, newWatch(f.fd(), unix.EPOLLPRI, abovePause))
		}
		// One that is not there stays closed, so that the order is that of the groups.
		m.above = append(m.above, f)
	}
	if _, _, err := m.look(); err != nil {
		return nil, nil, errors.Join(err, m.close())
	}
	return m, watches, nil
}

// look implements layout. The files above are read first: the kernel counts at the limit before it counts the kill.
func (m *memoryEvents) look() (record.OOMCounters, bool, error) {
	c := record.OOMCounters{Read: true, Above: make([]int64, len(m.above))}
	for i, f := range m.above {
		if !f.isOpen() {
			continue
		}
		values, err := f.read("oom")
		if err != nil {
			continue // nothing is known of this one
		}
		c.Above[i] = values[0]
	}
	values, err := m.own.read("oom", "oom_kill")
	if err != nil {
		return record.OOMCounters{}, false, err
	}
	c.Kills = values[1]
	// Since Linux 5.17.
	if groups, err := m.own.read("oom_group_kill"); err == nil {
		c.GroupKills = groups[0]
	}
	c.Own = values[0]
	if m.local.isOpen() {
		local, err := m.local.read("oom")
		if err != nil {
			return record.OOMCounters{}, false, err
		}
		c.Own, c.Below = local[0], max(0, values[0]-local[0])
	}
	if m.nested != nil {
		m.nested.look(c.Own + sum(c.Above))
		c.Kills += m.nested.kills
		c.Below += m.nested.atLimit
	}
	return c, false, nil
}

// close implements layout.
func (m *memoryEvents) close() error {
	errs := []error{m.own.close(), m.local.close()}
	for _, f := range m.above {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

func sum(counts []int64) (total int64) {
	for _, count := range counts {
		total += count
	}
	return total
}

// localEvents reports whether cgroup2 is mounted with memory_localevents: memory.events leaves out then what happens
// below a group.
func localEvents(host kernel.FS) bool {
	mounts, err := kernel.Mounts(host)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(mounts, func(m kernel.Mount) bool {
		return m.FSType == "cgroup2" && slices.Contains(m.SuperOptions, "memory_localevents")
	})
}
