// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"

	"github.com/tachograph/tacho/procstats/kernel"
)

// owner is the struct that a field is in.
type owner uint8

const (
	ofTask owner = iota
	ofSignal
	ofLeader
)

// field is one that is copied into a record.
type field struct {
	of      owner
	offset  int32
	size    int32
	to      int16
	missing bool // this kernel does not have it
}

// offsets are where the running kernel has what a record is made of.
type offsets struct {
	// stateArgument is the argument of sched_switch that has the state of the task before; -1 if it must be read of the task.
	stateArgument                 int
	state, signal, leader, maxRSS int32
	fields                        []field
	hasDelay, hasIO               bool
}

func readOffsets(fs kernel.FS) (*offsets, error) {
	types, err := kernel.OpenBTF(fs)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the operation and the file
	}
	o := offsetsOf(types)
	return o, errors.Join(types.Err(), types.Close())
}

func offsetsOf(types *kernel.BTF) *offsets {
	o := &offsets{
		stateArgument: -1, state: types.Offset("task_struct", "__state", "state"), signal: types.Offset("task_struct", "signal"),
		leader: types.Offset("task_struct", "group_leader"), maxRSS: types.Offset("signal_struct", "maxrss"),
	}
	for i, integer := range types.TracepointArguments("sched_switch") {
		if i > 0 && integer { // the first says whether the task was preempted
			o.stateArgument = i
		}
	}
	add := func(of owner, to int16, size, offset int32) {
		o.fields = append(o.fields, field{of: of, to: to, size: size, offset: offset})
	}
	add(ofLeader, atStart, 8, types.Offset("task_struct", "start_boottime", "real_start_time"))
	add(ofLeader, atCommand, commandSize, types.Offset("task_struct", "comm"))
	add(ofTask, atExitCode, 4, types.Offset("task_struct", "exit_code"))
	add(ofSignal, atGroupExitCode, 4, types.Offset("signal_struct", "group_exit_code"))
	add(ofSignal, atFlags, 4, types.Offset("signal_struct", "flags"))
	add(ofSignal, atLive, 4, types.Offset("signal_struct", "live"))
	add(ofSignal, atThreads, 4, types.Offset("signal_struct", "nr_threads"))
	add(ofSignal, atReleased, 8, types.Offset("signal_struct", "sum_sched_runtime"))
	add(ofSignal, atMaxRSS, 8, o.maxRSS)
	add(ofTask, atCPU, 8, types.Offset("task_struct", "se")+types.Offset("sched_entity", "sum_exec_runtime"))
	for i, name := range []string{"min_flt", "maj_flt", "nvcsw", "nivcsw"} {
		add(ofTask, atMinorFaults+8*int16(i), 8, types.Offset("task_struct", name)) //nolint:gosec // four of them
	}
	o.addOptional(types)
	return o
}

// addOptional adds what depends on CONFIG_SCHED_INFO and CONFIG_TASK_IO_ACCOUNTING.
func (o *offsets) addOptional(types *kernel.BTF) {
	add := func(to int16, member, structure, name string) (has bool) {
		outer, hasOuter := types.OptionalOffset("task_struct", member)
		inner, hasInner := types.OptionalOffset(structure, name)
		has = hasOuter && hasInner
		o.fields = append(o.fields, field{of: ofTask, to: to, size: 8, offset: outer + inner, missing: !has})
		return has
	}
	o.hasDelay = add(atDelay, "sched_info", "sched_info", "run_delay")
	o.hasIO = add(atRead, "ioac", "task_io_accounting", "read_bytes")
	add(atWritten, "ioac", "task_io_accounting", "write_bytes")
}
