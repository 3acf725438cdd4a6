// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"encoding/binary"
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

// readCounters reads counters of a kept-open file, all of which have to exist. A look may read a file once: a read
// acknowledges what happened before, and a kill between two of them would not be seen.
func readCounters(f kernel.File, keys ...string) (values []int64, data []byte, err error) {
	data, err = f.ReadRecord(make([]byte, 1024))
	if err != nil {
		return nil, nil, fmt.Errorf("read memory events: %w", err)
	}
	values, ok := counters(data, keys...)
	if !ok {
		return nil, nil, errors.New("read memory events: a counter is missing")
	}
	return values, data, nil
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
	values, data, err := readCounters(m.own, "oom", "oom_kill")
	if err != nil {
		return record.OOMCounters{}, false, err
	}
	var limited int64
	if m.nested != nil {
		limited = m.nested.count()
	}
	c.Kills = values[1]
	if groups, ok := counters(data, "oom_group_kill"); ok { // since Linux 5.17
		c.GroupKills = groups[0]
	}
	c.Own = values[0]
	if m.local.IsOpen() {
		local, _, err := readCounters(m.local, "oom")
		if err != nil {
			return record.OOMCounters{}, false, err
		}
		c.Own, c.Below = local[0], max(0, values[0]-local[0])
	}
	for i, f := range m.above {
		if !f.IsOpen() {
			continue
		}
		if above, _, err := readCounters(f, "oom"); err == nil { // else nothing is known of this one
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

// oomControl are the events of cgroup version 1, Documentation/admin-guide/cgroup-v1/memory.rst sections 9 to 11. An
// eventfd on memory.oom_control fires when the limit of that group, or of one above it, leaves the kernel only the
// OOM killer, just before it acts: the task's own limit fires the task's alone, an ancestor's the ancestor's too. The
// oom_kill of memory.oom_control counts processes of that very group, not of groups below. Limits below the task's
// group fire nothing here, and neither does the machine's memory; memory.pressure_level announces those: "critical",
// of groups below by hierarchy, is sent before the kernel gives up reclaiming.
type oomControl struct {
	control kernel.File
	// descriptors are the eventfds of the task's group and of those above, and fired counts their events.
	descriptors []int
	fired       []int64
	// pressure (of the task's group and those below) and rootPressure (of the machine) are eventfds that only say that
	// it may be time to look; -1 without one.
	pressure, rootPressure int
	// looks is how many more are due after an event.
	looks  int
	nested *nestedKills
}

// eventLooks covers the time between an event and the count of the kill, with pauses from firstRecheck to taskPause:
// a quarter of a second, because a hypervisor may keep the CPU that kills from running.
const eventLooks = 10

// openOOMControl registers on the task's group and on every group above it that permits it.
func openOOMControl(g groups) (layout, []*watch, error) {
	o := &oomControl{nested: newNestedV1(g.own), pressure: -1, rootPressure: -1}
	var err error
	if o.control, err = kernel.Open(filepath.Join(g.own, "memory.oom_control")); err != nil {
		return nil, nil, err
	}
	var watches []*watch
	for i, dir := range append([]string{g.own}, g.above...) {
		fd, err := register(dir, "memory.oom_control", "")
		if err != nil {
			if i == 0 {
				return nil, nil, errors.Join(err, o.close())
			}
			break // nothing is known of this one and those above
		}
		o.descriptors = append(o.descriptors, fd)
		watches = append(watches, newWatch(fd, unix.EPOLLIN, firstPause)) // it fires for OOM only
	}
	o.fired = make([]int64, len(o.descriptors))
	if fd, err := register(g.own, "memory.pressure_level", "critical,hierarchy"); err == nil {
		o.pressure = fd
		watches = append(watches, newWatch(fd, unix.EPOLLIN, taskPause))
	}
	if g.root && len(g.above) > 0 {
		if fd, err := register(g.above[len(g.above)-1], "memory.pressure_level", "critical,local"); err == nil {
			o.rootPressure = fd
			watches = append(watches, newWatch(fd, unix.EPOLLIN, taskPause))
		}
	}
	return o, watches, nil
}

// register returns an eventfd that the kernel writes to at the event of a control file.
func register(dir, file, argument string) (fd int, err error) {
	control, err := kernel.Open(filepath.Join(dir, file))
	if err != nil {
		return -1, err
	}
	defer control.Close() // it names the event, and is not needed for it
	if fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	text := fmt.Sprintf("%d %d %s", fd, control.FD(), argument)
	if err := kernel.WriteFile(filepath.Join(dir, "cgroup.event_control"), text); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// look implements layout. It reads kills before events: the kernel fires before it kills, so that no kill is seen
// without its event. It reads eventfds from the task upwards: the kernel fires an ancestor's before the task's, so
// that no event of the task is seen without the ancestor's.
func (o *oomControl) look() (record.OOMCounters, bool, error) {
	o.looks = max(0, o.looks-1)
	values, _, err := readCounters(o.control, "oom_kill", "under_oom")
	limited := o.nested.count()
	for i, fd := range o.descriptors {
		if events := drain(fd); events > 0 {
			o.fired[i] += events
			o.looks = eventLooks // under_oom is taken back before the kill
		}
	}
	pressed := drain(o.pressure) > 0
	if drain(o.rootPressure) > 0 {
		o.looks = eventLooks
	}
	if err != nil {
		return record.OOMCounters{}, false, err // they fire for the removal of the group, too
	}
	own, above := limitHits(o.fired)
	o.nested.attribute(limited, o.fired[0])
	if pressed && len(o.nested.seen) > 0 {
		o.looks = eventLooks
	}
	return record.OOMCounters{
		Read: true, Kills: values[0] + o.nested.kills, Own: own, Above: above, Below: o.nested.atLimit,
	}, values[1] > 0 || o.looks > 0, nil
}

// limitHits turns the events of each group, which include those of the groups above it, into the hits of its own
// limit.
func limitHits(fired []int64) (own int64, above []int64) {
	hits := make([]int64, len(fired))
	for i := range fired {
		hits[i] = fired[i]
		if i+1 < len(fired) {
			hits[i] = max(0, fired[i]-fired[i+1])
		}
	}
	return hits[0], hits[1:]
}

// drain returns how often an eventfd was written to since the last call; 0 without one.
func drain(fd int) int64 {
	if fd < 0 {
		return 0
	}
	var buffer [8]byte
	if n, err := unix.Read(fd, buffer[:]); err != nil || n != len(buffer) {
		return 0
	}
	return int64(binary.NativeEndian.Uint64(buffer[:]))
}

// close implements layout. The kernel forgets an event with its eventfd.
func (o *oomControl) close() error {
	errs := []error{o.control.Close()}
	for _, fd := range append(o.descriptors, o.pressure, o.rootPressure) {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
