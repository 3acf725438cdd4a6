// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build failpoint && unix

// Package failpoint names the steps at which tests let a process die, hang, or get an error from the kernel.
//
// A step is armed by a file with its name in the directory that is named like the executable, with .failpoints
// behind. The file has what happens: kill, stop, or an error such as ENOSPC. The first process that gets there
// renames the file to NAME.PID, and no other finds it: a step that is armed once happens once.
package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// At is a step at which the process may die or hang.
func At(name string) { _ = Err(name) }

// Err is a step at which the process may die or hang, and which may fail.
func Err(name string) error {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	path := filepath.Join(self+".failpoints", name)
	text, err := os.ReadFile(path)
	if err != nil || os.Rename(path, path+"."+strconv.Itoa(os.Getpid())) != nil {
		return nil
	}
	switch action := string(text); action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return nil
	default:
		return fmt.Errorf("failpoint %s: %w", name, errnos[action])
	}
}

var errnos = map[string]syscall.Errno{
	"ENOSPC": syscall.ENOSPC, "EMFILE": syscall.EMFILE, "ENOMEM": syscall.ENOMEM, "EIO": syscall.EIO,
}
