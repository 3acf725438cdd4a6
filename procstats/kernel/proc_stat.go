// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// ProcStat is what is used of /proc/PID/stat, proc_pid_stat(5). The times are in ticks of procstats.StartTick.
type ProcStat struct {
	PID, PPID, Session           int
	Comm                         []byte // in the memory that was parsed
	State                        byte
	flags                        uint64
	Minflt, Majflt               uint64
	Cminflt, cmajflt             uint64
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

// The fields that are used, as proc_pid_stat(5) numbers them.
const (
	statState     = 3
	statPPID      = 4
	statSession   = 6
	statFlags     = 9
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
	statExitCode  = 52

	// Signed fields are negative where the session of a process on its way out is -1, and where old kernels let the times
	// run below 0. They count as 0 then.
	statSigned   = 1<<statSession | 1<<statCutime | 1<<statCstime
	statUnsigned = 1<<statPPID | 1<<statFlags | 1<<statMinflt | 1<<statCminflt | 1<<statMajflt | 1<<statCmajflt |
		1<<statUtime | 1<<statStime | 1<<statThreads | 1<<statStart | 1<<statSigignore
)

// ParseProcStat reads the first line of /proc/PID/stat. comm is whatever the process calls itself, with brackets,
// blanks and newlines in it; no later field has a bracket, so the last one ends it.
func ParseProcStat(data []byte) (ProcStat, error) {
	open, end := bytes.IndexByte(data, '('), lastIndexByte(data, ')')
	if open < 1 || end < open || end+2 >= len(data) || data[end+1] != ' ' {
		return ProcStat{}, ErrFormat
	}
	pid, ok := parseUint(bytes.TrimRight(data[:open], " "))
	state, rest, found := cutAt(data[end+2:], ' ')
	if !ok || !found || len(state) != 1 {
		return ProcStat{}, ErrFormat
	}
	var n [statSigignore + 1]uint64
	for number := statState + 1; number < len(n) && found; number++ {
		var field []byte
		field, rest, found = cutAt(rest, ' ')
		if !found && number <= statStart {
			return ProcStat{}, ErrFormat
		}
		bit := uint64(1) << number
		if bit&(statUnsigned|statSigned) == 0 || bit&statSigned != 0 && len(field) > 0 && field[0] == '-' {
			continue
		}
		if n[number], ok = parseUint(field); !ok {
			return ProcStat{}, ErrFormat
		}
	}
	return ProcStat{
		PID: int(pid), PPID: int(n[statPPID]), Session: int(n[statSession]), Comm: data[open+1 : end], State: state[0],
		flags: n[statFlags], Minflt: n[statMinflt], Majflt: n[statMajflt], Cminflt: n[statCminflt], cmajflt: n[statCmajflt],
		utime: n[statUtime], stime: n[statStime], cutime: n[statCutime], cstime: n[statCstime],
		Threads: n[statThreads], Start: n[statStart], Sigignore: n[statSigignore],
	}, nil
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

// readStat reads /proc/PID/stat. The error wraps ENOENT or ESRCH if the process is gone.
func readStat(fs FS, pid int) (ProcStat, []byte, error) {
	path := fs.path(pid, "stat")
	data, err := ReadFile(path)
	if err != nil {
		return ProcStat{}, nil, err //nolint:wrapcheck // it names the operation and the file
	}
	stat, err := ParseProcStat(data)
	if err != nil {
		return ProcStat{}, nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return stat, data, nil
}

// Waited is what the kernel has added up for the children that a process has waited for. Two are equal only if no child
// was waited for in between: every process has page faults, however short it is.
type Waited struct {
	Minflt, Majflt uint64
	CPU            time.Duration // in whole ticks
}

// ReadWaited reads it from /proc/PID/stat, without waking the process. The error wraps ENOENT or ESRCH if it is gone.
func ReadWaited(fs FS, pid int) (Waited, error) {
	stat, _, err := readStat(fs, pid)
	return Waited{Minflt: stat.Cminflt, Majflt: stat.cmajflt, CPU: stat.Children()}, err
}

// Exit is what the kernel says about the end of a process.
type Exit struct {
	procstats.ProcessID
	// Zombie reports that the process has ended and waits for its parent.
	Zombie bool
	// Status is how a zombie ended, as wait(2) has it; 0 also for one of another user.
	Status int
	// Signaled reports that the process is on its way out because of a signal.
	Signaled bool
	// Pending are the signals that wait for the process or its first thread, one bit each. It is not read for a process
	// that ends already.
	Pending uint64
}

// ReadExit reads how a process ends from its stat and status. The error wraps ENOENT or ESRCH if it is gone.
func ReadExit(fs FS, pid int) (Exit, error) {
	stat, data, err := readStat(fs, pid)
	if err != nil {
		return Exit{}, err
	}
	const (
		first    = 3     // the field behind the name
		signaled = 0x400 // PF_SIGNALED in include/linux/sched.h
	)
	fields := strings.Fields(string(data[lastIndexByte(data, ')')+1:]))
	if len(fields) <= statExitCode-first {
		return Exit{}, fmt.Errorf("parse stat of process %d: %w", pid, ErrFormat)
	}
	e := Exit{
		ProcessID: procstats.ProcessID{PID: pid, Start: stat.Start}, Zombie: stat.Ended(), Signaled: stat.flags&signaled != 0,
	}
	if e.Status, err = strconv.Atoi(fields[statExitCode-first]); err != nil {
		return Exit{}, fmt.Errorf("parse stat of process %d: %w", pid, ErrFormat)
	}
	if e.Zombie || e.Signaled {
		return e, nil
	}
	status, err := os.ReadFile(fs.path(pid, "status"))
	if Gone(err) {
		return Exit{}, err //nolint:wrapcheck // it names the operation and the file
	}
	e.Pending = parsePending(status) // none if it may not be read
	return e, nil
}

// parsePending reads SigPnd and ShdPnd of /proc/PID/status, proc_pid_status(5).
func parsePending(status []byte) (pending uint64) {
	for line := range bytes.Lines(status) {
		name, mask, _ := strings.Cut(strings.TrimSpace(string(line)), ":\t")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if bits, err := strconv.ParseUint(mask, 16, 64); err == nil {
			pending |= bits
		}
	}
	return pending
}
