// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/truth"
)

// workload is one run of this program: the main process and what it starts.
type workload struct {
	// dir is where files go; it should be on a disk.
	dir string
	// truth is filled in as things are used.
	truth truth.Truth
}

// workloads are the ways to use something, by name.
func workloads() map[string]func(*workload) error {
	return map[string]func(*workload) error{
		"abandon":     (*workload).abandon,
		"cache":       (*workload).cache,
		"churn":       (*workload).churn,
		"daemons":     (*workload).daemons,
		"hundred":     (*workload).hundred,
		"ignore":      (*workload).ignore,
		"io-buffered": (*workload).ioBuffered,
		"io-direct":   (*workload).ioDirect,
		"reap-io":     (*workload).reapIO,
		"shared":      (*workload).shared,
		"short":       (*workload).short,
		"sleep":       (*workload).sleep,
		"spike":       (*workload).spike,
		"threads":     (*workload).threads,
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "child":
			return child(args[1:])
		case "launch":
			return launch(args[1:])
		case "linger":
			return linger(args[1:])
		case "shape":
			return playShape(args[1:])
		}
	}
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	file := flags.String("truth", "", "write what was used to this `file`")
	dir := flags.String("dir", ".", "`folder` for files to read and write")
	meter := flags.String("meter", "", "move into this cgroup `folder` first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(workloads()))
	use, known := workloads()[flags.Arg(0)]
	if flags.NArg() != 1 || !known {
		return fmt.Errorf("want one of %s, not %q", strings.Join(names, ", "), flags.Args())
	}
	w := &workload{dir: *dir, truth: truth.Truth{Workload: flags.Arg(0), Processes: 1}}
	if err := w.enter(*meter); err != nil {
		return err
	}
	if err := use(w); err != nil {
		return err
	}
	if err := w.account(); err != nil || *file == "" {
		return err
	}
	return w.truth.Write(*file)
}

// enter notes where the product put the process and moves it on into the meter, if there is one.
func (w *workload) enter(meter string) error {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	w.truth.Cgroups = strings.Split(strings.TrimSpace(string(data)), "\n")
	if meter == "" {
		return nil
	}
	before := clock(unix.CLOCK_PROCESS_CPUTIME_ID).Seconds()
	// 0 is the writer itself, with all its threads.
	if err := os.WriteFile(filepath.Join(meter, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("move into meter: %w", err)
	}
	w.truth.CPU.BeforeMeter = &before
	return nil
}

// account reads the clocks for the last time.
func (w *workload) account() error {
	var waited unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &waited); err != nil {
		return fmt.Errorf("getrusage: %w", err)
	}
	cpu := &w.truth.CPU
	cpu.Own = clock(unix.CLOCK_PROCESS_CPUTIME_ID).Seconds()
	cpu.Waited = time.Duration(waited.Utime.Nano() + waited.Stime.Nano()).Seconds()
	cpu.Total = cpu.Own + cpu.Waited + cpu.Reported
	return nil
}
