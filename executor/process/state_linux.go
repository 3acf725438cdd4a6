// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const sigkill = int(unix.SIGKILL)

// State is what has become of a process.
type State int

const (
	// Alive processes run, or wait.
	Alive State = iota
	// Killed processes are dying, or have died, of a SIGKILL.
	Killed
	// Gone processes have ended in a way that nobody can tell, or otherwise than by a SIGKILL.
	Gone
)

// StateOf looks at a process that was seen before. A SIGKILL that waits for it counts as its end.
func StateOf(host kernel.FS, id procstats.ProcessID) State {
	dir := filepath.Join(host.Proc, strconv.Itoa(id.PID))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Gone
	}
	// The name may have any bytes in it, so the last parenthesis counts; behind it stands field 3, proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const first = 3
	const state, flags, startTime, exitCode = 0, 9 - first, 22 - first, 52 - first
	if len(fields) <= exitCode || fields[startTime] != strconv.FormatUint(id.Start, 10) {
		return Gone
	}
	if fields[state] == "Z" || fields[state] == "X" {
		// 0 also where we may not see it.
		if status, err := strconv.Atoi(fields[exitCode]); err == nil && status&0x7f == sigkill {
			return Killed
		}
		return Gone
	}
	const signaled = 0x400 // PF_SIGNALED: it is on its way out because of a signal
	if bits, err := strconv.ParseUint(fields[flags], 10, 64); err == nil && bits&signaled != 0 {
		return Killed
	}
	if status, err := os.ReadFile(filepath.Join(dir, "status")); err == nil && sigkillPending(status) {
		return Killed
	}
	return Alive
}

// sigkillPending reports whether the process, or its first thread, has a SIGKILL to take, proc_pid_status(5).
func sigkillPending(status []byte) bool {
	for line := range bytes.Lines(status) {
		name, mask, _ := strings.Cut(strings.TrimSpace(string(line)), ":\t")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		pending, err := strconv.ParseUint(mask, 16, 64)
		if err == nil && pending&(1<<(sigkill-1)) != 0 {
			return true
		}
	}
	return false
}
