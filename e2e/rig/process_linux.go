// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a live process of a place.
type Process struct {
	PID     int
	Command string
}

func (s Process) String() string { return fmt.Sprintf("%d %q", s.PID, s.Command) }

// Strays lists the live processes of a place: those with its mark in their environment, and those that run the
// binaries under test.
func (p *Place) Strays() []Process {
	var strays []Process
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() || !p.owns(folder) {
			continue
		}
		// Processes that end meanwhile are none.
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err == nil && len(line) > 0 {
			strays = append(strays, Process{PID: pid, Command: strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " ")})
		}
	}
	return strays
}

func (p *Place) owns(folder string) bool {
	exe, err := os.Readlink(filepath.Join(folder, "exe"))
	if err == nil && (!p.Parallel && filepath.Dir(exe) == filepath.Dir(Tacho()) || strings.HasPrefix(exe, p.Dir+"/")) {
		return true
	}
	environ, err := os.ReadFile(filepath.Join(folder, "environ"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(entry []byte) bool {
		return string(entry) == markVariable+"="+p.Dir
	})
}

// killStrays reports what still runs in the place and ends it.
func (p *Place) killStrays(t testing.TB) {
	t.Helper()
	told := map[int]bool{}
	for range 100 {
		strays := p.Strays()
		if len(strays) == 0 {
			return
		}
		for _, stray := range strays {
			if !told[stray.PID] {
				t.Errorf("left behind: process %s", stray)
			}
			told[stray.PID] = true
			Kill(stray.PID)
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Error("left behind: processes that cannot be killed")
}

// Kill ends a process that is known by its number only: the pidfd makes sure that it is still there.
func Kill(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	// It may have ended by itself.
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// Alive reports whether a process runs: a zombie does not.
func Alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name before the state may have any bytes in it, so the last parenthesis counts.
	end := bytes.LastIndexByte(data, ')')
	if end < 0 || end+2 >= len(data) {
		return false
	}
	state := data[end+2]
	return state != 'Z' && state != 'X'
}
