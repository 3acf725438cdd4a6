// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// Identity is who a process is and whose child.
type Identity struct {
	procstats.ProcessID
	PPID int
	// Session is the PID of the session's leader, setsid(2).
	Session int
	// Zombie reports that the process has ended and waits for its parent.
	Zombie bool
}

// Identify reads the identity of a process from /proc/PID/stat below a proc root. The error wraps ENOENT or ESRCH
// for a process that is gone.
func Identify(root FS, pid int) (Identity, error) {
	stat, _, err := readStat(root, pid)
	if err != nil {
		return Identity{}, err
	}
	id := procstats.ProcessID{PID: pid, Start: stat.Start}
	return Identity{ProcessID: id, PPID: stat.PPID, Session: stat.Session, Zombie: stat.Ended()}, nil
}

// Alive reports whether a process runs and is still the same one: its number may be another's by now. A zombie does not
// run.
func Alive(root FS, id procstats.ProcessID) bool {
	now, err := Identify(root, id.PID)
	return err == nil && now.ProcessID == id && !now.Zombie
}

// BootID returns the random id of this boot, random(4): process ids and start times of another mean nothing.
func BootID(root FS) (string, error) {
	text, err := os.ReadFile(filepath.Join(root.Proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("no boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// PIDNamespace returns the name of this process's PID namespace, pid_namespaces(7), such as pid:[4026531836]; empty if
// the kernel has none. Process ids of another namespace mean nothing in this one.
func PIDNamespace(root FS) string { return namespace(root, "self", "pid") }

func namespace(root FS, process, kind string) string {
	name, _ := os.Readlink(filepath.Join(root.Proc, process, "ns", kind)) // empty without one
	return name
}

// InInitialPIDNamespace reports whether the PIDs of this process are those that the kernel logs: the first PID
// namespace has a fixed number, PROC_PID_INIT_INO in include/linux/proc_ns.h.
func InInitialPIDNamespace(fs FS) bool { return PIDNamespace(fs) == "pid:[4026531836]" }

// InInitialTimeNamespace reports whether the clocks of this process are those of the kernel, time_namespaces(7): a
// fixed number too, PROC_TIME_INIT_INO. A kernel without those namespaces has no other clocks.
func InInitialTimeNamespace(fs FS) bool {
	name, err := os.Readlink(filepath.Join(fs.Proc, "self/ns/time"))
	return errors.Is(err, os.ErrNotExist) || name == "time:[4026531834]"
}

// InInitialUserNamespace reports whether the capabilities of this process are those of the machine: a fixed number too,
// PROC_USER_INIT_INO.
func InInitialUserNamespace(fs FS) bool {
	name := namespace(fs, "self", "user")
	return name == "" || name == "user:[4026531837]"
}

// StatusField returns a field of /proc/self/status, proc_pid_status(5); empty if it cannot be read.
func StatusField(fs FS, name string) string {
	text, _ := os.ReadFile(filepath.Join(fs.Proc, "self/status"))
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Capable reports whether this process has an effective capability, in its user namespace.
func Capable(fs FS, capability uint) bool {
	set, err := strconv.ParseUint(StatusField(fs, "CapEff"), 16, 64)
	return err == nil && set&(1<<capability) != 0
}

// Comm returns the name of a process, /proc/PID/comm, which may have newlines.
func Comm(fs FS, pid int) (string, error) {
	text, err := os.ReadFile(fs.path(pid, "comm"))
	return procstats.EscapeName(strings.TrimSuffix(string(text), "\n")), err
}

// OwnOOMScoreAdj is how much the OOM killer spares or prefers this process, -1000 to 1000: /proc/self/oom_score_adj,
// proc_pid_oom_score_adj(5), since Linux 2.6.36.
func OwnOOMScoreAdj(fs FS) (int, error) {
	path := filepath.Join(fs.Proc, "self", "oom_score_adj")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the operation and the file
	}
	adj, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || adj < -1000 || adj > 1000 {
		return 0, fmt.Errorf("read %s: %q is not in -1000 to 1000", path, text)
	}
	return adj, nil
}
