// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
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
	// shells is how many each line of churn starts.
	shells int
	// truth is filled in as things are used.
	truth truth.Truth
}

// workloads are the ways to use something, by name.
func workloads() map[string]func(*workload) {
	return map[string]func(*workload){
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

func run(args []string) {
	commands := map[string]func([]string){
		"child": child, "launch": launch, "linger": linger, "network": network, "shape": playShape,
	}
	if len(args) > 0 && commands[args[0]] != nil {
		commands[args[0]](args[1:])
		return
	}
	flags := newFlags("workload")
	file := flags.String("truth", "", "write what was used to this `file`")
	dir := flags.String("dir", ".", "`folder` for files to read and write")
	meter := flags.String("meter", "", "move into this cgroup `folder` first")
	shells := flags.Int("shells", 30, "`number` of shells that each of the two lines of churn starts")
	check(flags.Parse(args))
	names := slices.Sorted(maps.Keys(workloads()))
	use, known := workloads()[flags.Arg(0)]
	if flags.NArg() != 1 || !known {
		check(fmt.Errorf("want one of %s, not %q", strings.Join(names, ", "), flags.Args()))
	}
	w := &workload{dir: *dir, shells: *shells, truth: truth.Truth{Workload: flags.Arg(0), Processes: 1}}
	w.enter(*meter)
	use(w)
	w.account()
	if *file != "" {
		check(w.truth.Write(*file))
	}
}

// enter notes where the product put the process and moves it on into the meter, if there is one.
func (w *workload) enter(meter string) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if !errors.Is(err, os.ErrNotExist) {
		check(err)
	}
	w.truth.Cgroups = strings.Split(strings.TrimSpace(string(data)), "\n")
	if meter != "" {
		before := clock(unix.CLOCK_PROCESS_CPUTIME_ID).Seconds()
		moveInto(meter)
		w.truth.CPU.BeforeMeter = &before
	}
}

// moveInto moves the process into cgroups, of several hierarchies.
func moveInto(folders string) {
	for folder := range strings.FieldsFuncSeq(folders, func(r rune) bool { return r == ',' }) {
		// 0 is the writer itself, with all its threads.
		check(os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0))
	}
}

// account reads the clocks for the last time.
func (w *workload) account() {
	var waited unix.Rusage
	check(os.NewSyscallError("getrusage", unix.Getrusage(unix.RUSAGE_CHILDREN, &waited)))
	cpu := &w.truth.CPU
	cpu.Own = clock(unix.CLOCK_PROCESS_CPUTIME_ID).Seconds()
	cpu.Waited = time.Duration(waited.Utime.Nano() + waited.Stime.Nano()).Seconds()
	cpu.Cgroup = countedCPU(w.truth.Cgroups)
	if cpu.Cgroup != nil && cpu.Reported > 0 {
		// What processes use to end that are not waited for, the kernel alone knows: while their folders in /proc are read it
		// was ten times as much as in those that were waited for.
		cpu.Reported = max(cpu.Reported, *cpu.Cgroup-cpu.Own-cpu.Waited)
	}
	cpu.Total = cpu.Own + cpu.Waited + cpu.Reported
}
