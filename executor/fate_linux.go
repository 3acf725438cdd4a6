// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const sigkill = int(unix.SIGKILL)

// fate is what has become of a process.
type fate int

const (
	lives fate = iota
	// killedBySignal processes are dying, or have died, of a SIGKILL.
	killedBySignal
	// vanished processes are gone, nobody can say how, or have ended otherwise.
	vanished
)

// fateOf looks at a process that was seen before. A SIGKILL that waits for it counts as its end.
func fateOf(host kernel.FS, id procstats.ProcessID) fate {
	dir := filepath.Join(host.Proc, strconv.Itoa(id.PID))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return vanished
	}
	// The name may have any bytes in it, so the last parenthesis counts; behind it stands field 3, proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const first = 3
	const state, flags, startTime, exitCode = 0, 9 - first, 22 - first, 52 - first
	if len(fields) <= exitCode || fields[startTime] != strconv.FormatUint(id.Start, 10) {
		return vanished
	}
	if fields[state] == "Z" || fields[state] == "X" {
		// 0 also where we may not see it.
		if status, err := strconv.Atoi(fields[exitCode]); err == nil && status&0x7f == sigkill {
			return killedBySignal
		}
		return vanished
	}
	const signaled = 0x400 // PF_SIGNALED: it is on its way out because of a signal
	if bits, err := strconv.ParseUint(fields[flags], 10, 64); err == nil && bits&signaled != 0 {
		return killedBySignal
	}
	if status, err := os.ReadFile(filepath.Join(dir, "status")); err == nil && sigkillPending(status) {
		return killedBySignal
	}
	return lives
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

// userspaceKillers lists the running programs that are known to send SIGKILL where memory is short.
func userspaceKillers(host kernel.FS) []string {
	entries, err := os.ReadDir(host.Proc)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(host.Proc, entry.Name(), "comm"))
		if err != nil {
			continue // it has ended, or is not ours to see
		}
		name := strings.TrimSpace(string(comm))
		if slices.Contains([]string{"systemd-oomd", "earlyoom", "nohang", "oomd"}, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
