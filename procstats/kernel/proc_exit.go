// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

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

// The fields of /proc/PID/stat that matter here, as proc_pid_stat(5) numbers them.
const (
	statFlags    = 9
	statExitCode = 52
)

// ReadExit reads how a process ends from its stat and status. The error wraps ENOENT or ESRCH if it is gone.
func ReadExit(fs FS, pid int) (Exit, error) {
	dir := filepath.Join(fs.Proc, strconv.Itoa(pid))
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Exit{}, err
	}
	e, err := parseExit(data)
	if err != nil {
		return Exit{}, fmt.Errorf("parse stat of process %d: %w", pid, err)
	}
	e.PID = pid
	if e.Zombie || e.Signaled {
		return e, nil
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if Gone(err) {
		return Exit{}, err
	}
	e.Pending = parsePending(status) // none if it may not be read
	return e, nil
}

func parseExit(data []byte) (e Exit, err error) {
	stat, err := ParseProcStat(data)
	if err != nil {
		return Exit{}, err
	}
	e.Start, e.Zombie = stat.Start, stat.Ended()
	const first = 3 // the field behind the name
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= statExitCode-first {
		return Exit{}, ErrFormat
	}
	flags, err := strconv.ParseUint(fields[statFlags-first], 10, 64)
	if err != nil {
		return Exit{}, ErrFormat
	}
	const signaled = 0x400 // PF_SIGNALED in include/linux/sched.h
	e.Signaled = flags&signaled != 0
	if e.Status, err = strconv.Atoi(fields[statExitCode-first]); err != nil {
		return Exit{}, ErrFormat
	}
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
