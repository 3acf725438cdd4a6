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
	path := filepath.Join(root.Proc, strconv.Itoa(pid), "stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return Identity{}, err
	}
	stat, err := ParseProcStat(data)
	if err != nil {
		return Identity{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return Identity{
		ProcessID: procstats.ProcessID{PID: pid, Start: stat.Start}, PPID: stat.PPID, Session: stat.Session,
		Zombie: stat.Ended(),
	}, nil
}

// Alive reports whether a process runs and is still the same one: its number may be another's by now. A zombie does not
// run.
func Alive(root FS, id procstats.ProcessID) bool {
	now, err := Identify(root, id.PID)
	return err == nil && now.ProcessID == id && !now.Zombie
}

// ErrNoBootID says that the system does not tell its boots apart.
var ErrNoBootID = errors.New("no boot id on this system")

// BootID returns the random id of this boot, random(4): process ids and start times of another mean nothing.
func BootID(root FS) (string, error) {
	text, err := os.ReadFile(filepath.Join(root.Proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoBootID, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// PIDNamespace returns the name of this process's PID namespace, pid_namespaces(7), such as pid:[4026531836]; empty if
// the kernel has none. Process ids of another namespace mean nothing in this one.
func PIDNamespace(root FS) string {
	name, err := os.Readlink(filepath.Join(root.Proc, "self/ns/pid"))
	if err != nil {
		return ""
	}
	return name
}
