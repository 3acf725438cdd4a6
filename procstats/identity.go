// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Identity is who a process is and whose child.
type Identity struct {
	ProcessID
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
	stat, err := parseProcStat(data)
	if err != nil {
		return Identity{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return Identity{
		ProcessID: ProcessID{PID: pid, Start: stat.start}, PPID: stat.ppid, Session: stat.session,
		Zombie: stat.state == 'Z' || stat.state == 'X',
	}, nil
}
