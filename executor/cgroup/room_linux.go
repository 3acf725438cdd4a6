// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits that the groups above a task can reach.
const (
	ofProcesses = "pids."
	ofGroups    = "cgroup."
	// afterwards is how much may have become free since: an executor that lacks a thread ends with all it has.
	afterwards = 16
)

// NoRoom names the limit that keeps these groups from having one more process, if err is EAGAIN: the kernel does not
// say which of the groups above has reached its own.
func NoRoom(err error, dirs ...string) error { return noRoom(err, ofProcesses, dirs) }

// noRoom names the limit of a kind with the least room: meanwhile another process may have ended.
func noRoom(err error, kind string, dirs []string) error {
	if !errors.Is(err, unix.EAGAIN) {
		return err
	}
	least, said := int64(math.MaxInt64), ""
	for _, dir := range dirs {
		for depth := int64(0); len(dir) > 1; dir, depth = filepath.Dir(dir), depth+1 {
			for file, used := range usage(dir, depth) {
				most, unlimited := readNumber(dir, file)
				if strings.HasPrefix(file, kind) && unlimited == nil && most-used < least {
					least, said = most-used, fmt.Sprintf("%s is %d, and %d are there", filepath.Join(dir, file), most, used)
				}
			}
		}
	}
	if least > afterwards {
		return err // it is a limit of another kind: of a user, or the kernel's own
	}
	return fmt.Errorf("%w: %s", err, said)
}

// usage returns what the limits of a group count, by their files; depth is that of the groups that would be made.
func usage(dir string, depth int64) map[string]int64 {
	processes, _ := readNumber(dir, "pids.current")
	used := map[string]int64{"pids.max": processes, "cgroup.max.depth": depth}
	if words := readWords(dir, "cgroup.stat"); len(words) > 1 { // the first line is nr_descendants
		used["cgroup.max.descendants"], _ = strconv.ParseInt(words[1], 10, 64)
	}
	return used
}
