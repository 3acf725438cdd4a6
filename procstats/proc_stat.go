// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"bytes"
	"errors"
	"time"
)

// errFormat is the error of every parser in this package that meets what the kernel does not write.
var errFormat = errors.New("not in the kernel's format")

// procStat is what is used of /proc/PID/stat, proc_pid_stat(5). The times are in ticks of startTick.
type procStat struct {
	pid, ppid, session           int
	comm                         []byte // in the memory that was parsed
	state                        byte
	minflt, majflt               uint64
	utime, stime, cutime, cstime uint64
	threads                      uint64
	start                        uint64
	sigignore                    uint64 // the first 31 signals, one bit each
}

// own returns the process's own CPU time, in whole ticks.
func (s *procStat) own() time.Duration { return ticks(s.utime) + ticks(s.stime) }

// children returns the CPU time of the children that the process has waited for, in whole ticks.
func (s *procStat) children() time.Duration { return ticks(s.cutime) + ticks(s.cstime) }

// ticks converts USER_HZ; what no machine can have used is the largest duration, not a negative one.
func ticks(n uint64) time.Duration {
	const most = uint64(1<<63-1) / uint64(startTick) / 4
	return time.Duration(min(n, most)) * startTick
}

// parseProcStat reads the first line of /proc/PID/stat. comm is whatever the process calls itself, with brackets,
// blanks and newlines in it; no later field has a bracket, so the last one ends it.
func parseProcStat(data []byte) (procStat, error) {
	var s procStat
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || end < open || end+1 >= len(data) || data[end+1] != ' ' {
		return procStat{}, errFormat
	}
	pid, ok := parseKernelUint(bytes.TrimRight(data[:open], " "))
	if !ok {
		return procStat{}, errFormat
	}
	s.pid, s.comm = int(pid), data[open+1:end]
	rest := data[end+2:]
	for number := 3; number <= lastStatField; number++ {
		field, after, found := bytes.Cut(rest, []byte{' '})
		if !found && number <= statStart {
			return procStat{}, errFormat
		}
		if !s.set(number, field) {
			return procStat{}, errFormat
		}
		if rest = after; !found {
			break
		}
	}
	return s, nil
}

// The fields as proc_pid_stat(5) numbers them.
const (
	statState     = 3
	statPPID      = 4
	statSession   = 6
	statMinflt    = 10
	statMajflt    = 12
	statUtime     = 14
	statStime     = 15
	statCutime    = 16
	statCstime    = 17
	statThreads   = 20
	statStart     = 22
	statSigignore = 33
	lastStatField = statSigignore
)

func (s *procStat) set(number int, field []byte) (ok bool) {
	var n uint64
	switch number {
	case statState:
		if len(field) != 1 {
			return false
		}
		s.state = field[0]
		return true
	case statPPID, statMinflt, statMajflt, statUtime, statStime, statThreads, statStart, statSigignore:
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

func (s *procStat) assign(number int, n uint64) {
	switch number {
	case statPPID:
		s.ppid = int(n)
	case statSession:
		s.session = int(n)
	case statMinflt:
		s.minflt = n
	case statMajflt:
		s.majflt = n
	case statUtime:
		s.utime = n
	case statStime:
		s.stime = n
	case statCutime:
		s.cutime = n
	case statCstime:
		s.cstime = n
	case statThreads:
		s.threads = n
	case statStart:
		s.start = n
	case statSigignore:
		s.sigignore = n
	}
}
