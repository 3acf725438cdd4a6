// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"bytes"
	"encoding/binary"
	"time"
)

// Where a record has what, in bytes.
const (
	atWatch         = 0
	atPID           = 8
	atStart         = 16
	atCommand       = 24
	atExitCode      = 40
	atGroupExitCode = 44
	atFlags         = 48
	atLive          = 52
	atThreads       = 56
	atReleased      = 64
	atMaxRSS        = 72
	atInherited     = 80
	atCPU           = 88
	atMinorFaults   = 96 // and major faults, voluntary and other switches
	atDelay         = 128
	atRead          = 136
	atWritten       = 144
	atEnd           = 152
	recordSize      = 160

	commandSize = 16 // TASK_COMM_LEN
)

// noName is that of processes whose name is empty, which is that of a sum of others in a list of commands.
const noName = "(no name)"

// groupExit is SIGNAL_GROUP_EXIT of sched/signal.h: the process has one exit status for all its threads.
const groupExit = 0x4

// thread is the kernel's final account of one thread.
type thread struct {
	watch   uint64
	process process
	first   bool   // of its process
	command string // of its process
	status  uint32 // of the process, wait(2), as far as this thread knows it
	whole   bool   // status is the process's
	ended   bool   // no thread of the process is alive
	others  bool   // the process has had other threads
	last    bool   // the process has ended, and all its other threads but the first are released
	// maxRSS is the largest resident set of the process in bytes, inherited what of it was its parent's.
	maxRSS, inherited int64
	end               time.Duration // when it ran last, CLOCK_MONOTONIC of the machine
	use               use
}

// process is an identity: a PID of the first PID namespace, and when it started, in nanoseconds since boot.
type process struct {
	pid   uint32
	start uint64
}

// use is what is added up, of threads and of processes.
type use struct {
	cpu, delay               time.Duration
	read, written            int64
	minorFaults, majorFaults int64
	voluntary, involuntary   int64 // context switches
}

func (u *use) add(other use) {
	u.cpu += other.cpu
	u.delay += other.delay
	u.read += other.read
	u.written += other.written
	u.minorFaults += other.minorFaults
	u.majorFaults += other.majorFaults
	u.voluntary += other.voluntary
	u.involuntary += other.involuntary
}

// decode reads a record; false if it is too short.
func decode(raw []byte, pageSize int64) (t thread, ok bool) {
	if len(raw) < recordSize {
		return thread{}, false
	}
	long := func(at int) int64 { return int64(binary.NativeEndian.Uint64(raw[at:])) } //nolint:gosec // counts far below
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(raw[at:]) }
	id, pid := word(atPID), word(atPID+4)
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		id, pid = pid, id
	}
	name, _, _ := bytes.Cut(raw[atCommand:atCommand+commandSize], []byte{0})
	if len(name) == 0 { // prctl(2) can clear it
		name = []byte(noName)
	}
	t = thread{
		watch: uint64(long(atWatch)), process: process{pid: pid, start: uint64(long(atStart))}, //nolint:gosec // bits
		first: id == pid, command: string(name), status: word(atExitCode), whole: id == pid,
		ended: word(atLive) == 0, others: word(atThreads) > 1 || long(atReleased) > 0,
		last:   word(atLive) == 0 && word(atThreads) <= 1,
		maxRSS: long(atMaxRSS) * pageSize, inherited: long(atInherited) * pageSize, end: time.Duration(long(atEnd)),
		use: use{
			cpu: time.Duration(long(atCPU)), delay: time.Duration(long(atDelay)),
			read: long(atRead), written: long(atWritten),
			minorFaults: long(atMinorFaults), majorFaults: long(atMinorFaults + 8),
			voluntary: long(atMinorFaults + 16), involuntary: long(atMinorFaults + 24),
		},
	}
	if word(atFlags)&groupExit != 0 {
		t.status, t.whole = word(atGroupExitCode), true
	}
	return t, true
}
