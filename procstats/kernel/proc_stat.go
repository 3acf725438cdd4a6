// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"errors"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// ErrFormat is the error of every parser in this package that meets what the kernel does not write.
var ErrFormat = errors.New("not in the kernel's format")

// ProcStat is what is used of /proc/PID/stat, proc_pid_stat(5). The times are in ticks of procstats.StartTick.
type ProcStat struct {
	PID, PPID, Session           int
	Comm                         []byte // in the memory that was parsed
	State                        byte
	flags                        uint64
	Minflt, Majflt               uint64
	cminflt, cmajflt             uint64
	utime, stime, cutime, cstime uint64
	Threads                      uint64
	Start                        uint64
	Sigignore                    uint64 // the first 31 signals, one bit each
}

// Own returns the process's own CPU time, in whole ticks.
func (s *ProcStat) Own() time.Duration { return Ticks(s.utime) + Ticks(s.stime) }

// Children returns the CPU time of the children that the process has waited for, in whole ticks.
func (s *ProcStat) Children() time.Duration { return Ticks(s.cutime) + Ticks(s.cstime) }

// Ended reports whether the process has ended. The state is that of the first thread, which can end before the others.
func (s *ProcStat) Ended() bool { return s.State == 'X' || s.State == 'Z' && s.Threads <= 1 }

// Exiting reports whether the first thread is about to end or has ended: it is in no v1 cgroup any more.
func (s *ProcStat) Exiting() bool {
	const exiting = 0x4 // PF_EXITING, include/linux/sched.h
	return s.flags&exiting != 0 || s.State == 'Z' || s.State == 'X'
}

// Ticks converts USER_HZ; what no machine can have used is the largest duration, not a negative one.
func Ticks(n uint64) time.Duration {
	const most = uint64(1<<63-1) / uint64(procstats.StartTick) / 4
	return time.Duration(min(n, most)) * procstats.StartTick
}

// ParseProcStat reads the first line of /proc/PID/stat. comm is whatever the process calls itself, with brackets,
// blanks and newlines in it; no later field has a bracket, so the last one ends it.
func ParseProcStat(data []byte) (ProcStat, error) {
	var s ProcStat
	open, end := bytes.IndexByte(data, '('), lastIndexByte(data, ')')
	if open < 1 || end < open || end+1 >= len(data) || data[end+1] != ' ' {
		return ProcStat{}, ErrFormat
	}
	pid, ok := parseKernelUint(bytes.TrimRight(data[:open], " "))
	if !ok {
		return ProcStat{}, ErrFormat
	}
	s.PID, s.Comm = int(pid), data[open+1:end]
	rest := data[end+2:]
	for number := 3; number <= lastStatField; number++ {
		field, after, found := cutAt(rest, ' ')
		if !found && number <= statStart {
			return ProcStat{}, ErrFormat
		}
		if !s.set(number, field) {
			return ProcStat{}, ErrFormat
		}
		if rest = after; !found {
			break
		}
	}
	return s, nil
}

// lastIndexByte is bytes.LastIndexByte, which goes back byte by byte, for a byte that is hardly ever there twice.
func lastIndexByte(data []byte, b byte) int {
	last := -1
	for {
		next := bytes.IndexByte(data[last+1:], b)
		if next < 0 {
			return last
		}
		last += 1 + next
	}
}

// The fields as proc_pid_stat(5) numbers them.
const (
	statState     = 3
	statPPID      = 4
	statSession   = 6
	statMinflt    = 10
	statCminflt   = 11
	statMajflt    = 12
	statCmajflt   = 13
	statUtime     = 14
	statStime     = 15
	statCutime    = 16
	statCstime    = 17
	statThreads   = 20
	statStart     = 22
	statSigignore = 33
	lastStatField = statSigignore
)

func (s *ProcStat) set(number int, field []byte) (ok bool) {
	var n uint64
	switch number {
	case statState:
		if len(field) != 1 {
			return false
		}
		s.State = field[0]
		return true
	case statPPID, statFlags, statMinflt, statCminflt, statMajflt, statCmajflt, statUtime, statStime, statThreads, statStart, statSigignore:
		if n, ok = parseKernelUint(field); !ok {
			return false
		}
	case statSession, statCutime, statCstime:
		// Signed in the kernel's own format: the session of a process on its way out is -1, and old kernels let
		// the times run below 0.
		if len(field) > 0 && field[0] == '-' {
			return true
		}
		if n, ok = parseKernelUint(field); !ok {
			return false
		}
	}
	s.assign(number, n)
	return true
}

func (s *ProcStat) assign(number int, n uint64) {
	switch number {
	case statPPID:
		s.PPID = int(n)
	case statSession:
		s.Session = int(n)
	case statFlags:
		s.flags = n
	case statMinflt:
		s.Minflt = n
	case statCminflt:
		s.cminflt = n
	case statMajflt:
		s.Majflt = n
	case statCmajflt:
		s.cmajflt = n
	case statUtime:
		s.utime = n
	case statStime:
		s.stime = n
	case statCutime:
		s.cutime = n
	case statCstime:
		s.cstime = n
	case statThreads:
		s.Threads = n
	case statStart:
		s.Start = n
	case statSigignore:
		s.Sigignore = n
	}
}
