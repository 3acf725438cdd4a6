// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package collector writes the output of tasks to rotated files for drivers that leave this to their host. They are
// given FIFOs. A process of its own reads them: it outlives the agent as the task does, so that a task whose agent is
// killed neither waits nor dies of a broken pipe.
//
//	.TASK.stdout.fifo  .TASK.stderr.fifo  what the driver writes to
//	.TASK.collector                       locked, flock(2), as long as the process runs; its identity is in it
//	.TASK.collector.log                   what a user should know of it
package collector

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// Command are the arguments that make our executable a collector; those of Options follow.
//
//nolint:gochecknoglobals // a constant list
var Command = []string{"agent", "collect-logs"}

// Options say what is collected.
type Options struct {
	// Dir is the directory of the log files, which exists. Tasks cannot write to it.
	Dir string
	// Task begins the files' names.
	Task string
	// MaxFiles and MaxFileBytes bound each of the two streams.
	MaxFiles     int
	MaxFileBytes int64
}

func (o Options) stdout() string { return filepath.Join(o.Dir, "."+o.Task+".stdout.fifo") }
func (o Options) stderr() string { return filepath.Join(o.Dir, "."+o.Task+".stderr.fifo") }
func (o Options) lock() string   { return filepath.Join(o.Dir, "."+o.Task+".collector") }
func (o Options) log() string    { return filepath.Join(o.Dir, "."+o.Task+".collector.log") }

// Serves reports whether a task writes to a collector: it was started with a path that Ensure returned.
func (o Options) Serves(stdoutPath string) bool { return stdoutPath == o.stdout() }

func (o Options) arguments() []string {
	return []string{o.Dir, o.Task, strconv.Itoa(o.MaxFiles), strconv.FormatInt(o.MaxFileBytes, 10)}
}

// parse is the reverse of arguments.
func parse(args []string) (o Options, err error) {
	if len(args) != 4 {
		return o, fmt.Errorf("got %d arguments, want a directory, a task, a number of files and their size", len(args))
	}
	o.Dir, o.Task = args[0], args[1]
	if o.MaxFiles, err = strconv.Atoi(args[2]); err != nil {
		return o, err
	}
	o.MaxFileBytes, err = strconv.ParseInt(args[3], 10, 64)
	return o, err
}
