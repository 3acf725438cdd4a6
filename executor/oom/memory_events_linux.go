// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// memoryEvents are the counters of cgroup version 2, Documentation/admin-guide/cgroup-v2.rst "Memory Interface
// Files". memory.events of a group counts what happened in it and below it, memory.events.local (since Linux 5.2)
// only what its own limit led to. Both can be polled for EPOLLPRI; reading the same descriptor acknowledges.
type memoryEvents struct {
	own, local kernel.File
	above      []kernel.File
	// nested counts kills below the task's group if memory.events does not.
	nested *nestedKills
}

// readCounters reads counters of a kept-open file, all of which have to exist.
func readCounters(f kernel.File, keys ...string) ([]int64, error) {
	var buffer [1024]byte
	data, err := f.ReadRecord(buffer[:])
	if err != nil {
		return nil, fmt.Errorf("read memory events: %w", err)
	}
	values, ok := counters(data, keys...)
	if !ok {
		return nil, errors.New("read memory events: a counter is missing")
	}
	return values, nil
}

// openMemoryEvents opens the files of the task and of every group above it except the root, which has none.
func openMemoryEvents(host kernel.FS, g groups) (layout, []*watch, error) {
	m := &memoryEvents{}
	var err error
	if m.own, err = kernel.Open(filepath.Join(g.own, "memory.events")); err != nil {
		return nil, nil, err
	}
	m.local, err = kernel.Open(filepath.Join(g.own, "memory.events.local"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(err, m.close())
	}
	if kernel.HasCgroupOption(host, g.own, "memory_localevents") { // then memory.events omits what happens below a group
		m.nested = newNestedV2(g.own)
	}
	watches := []*watch{newWatch(m.own.FD(), unix.EPOLLPRI, taskPause)}
	for _, dir := range g.above {
		f, err := kernel.Open(filepath.Join(dir, "memory.events.local"))
		if err == nil {
			watches = append(watches, newWatch(f.FD(), unix.EPOLLPRI, abovePause))
		}
		// One that is not there stays closed, so that the order is that of the groups.
		m.above = append(m.above, f)
	}
	if _, _, err := m.look(); err != nil {
		return nil, nil, errors.Join(err, m.close())
	}
	return m, watches, nil
}

// look implements layout. It reads kills first: the kernel counts at the limit before it counts the kill, so that no
// kill is seen without its limit.
func (m *memoryEvents) look() (record.OOMCounters, bool, error) {
	c := record.OOMCounters{Read: true, Above: make([]int64, len(m.above))}
	values, err := readCounters(m.own, "oom", "oom_kill")
	if err != nil {
		return record.OOMCounters{}, false, err
	}
	var limited int64
	if m.nested != nil {
		limited = m.nested.count()
	}
	c.Kills = values[1]
	// Since Linux 5.17.
	if groups, err := readCounters(m.own, "oom_group_kill"); err == nil {
		c.GroupKills = groups[0]
	}
	c.Own = values[0]
	if m.local.IsOpen() {
		local, err := readCounters(m.local, "oom")
		if err != nil {
			return record.OOMCounters{}, false, err
		}
		c.Own, c.Below = local[0], max(0, values[0]-local[0])
	}
	for i, f := range m.above {
		if !f.IsOpen() {
			continue
		}
		if above, err := readCounters(f, "oom"); err == nil { // else nothing is known of this one
			c.Above[i] = above[0]
		}
	}
	if m.nested != nil {
		m.nested.attribute(limited, c.Hits()-c.Below)
		c.Kills += m.nested.kills
		c.Below += m.nested.atLimit
	}
	return c, false, nil
}

// close implements layout.
func (m *memoryEvents) close() error {
	errs := []error{m.own.Close(), m.local.Close()}
	for _, f := range m.above {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// counters returns the values of some keys of memory.events or memory.oom_control; ok is false if one of them is
// missing or not a number.
func counters(data []byte, keys ...string) (values []int64, ok bool) {
	fields := make([]kernel.Field, len(keys))
	for i, key := range keys {
		fields[i].Key = key
	}
	kernel.ParseFlatKeyed(data, fields)
	for _, field := range fields {
		if field.State != kernel.FieldRead {
			return nil, false
		}
		values = append(values, int64(field.Value))
	}
	return values, true
}
