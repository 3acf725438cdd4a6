// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/internal/bpf"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Registers that calls leave alone, and what the programs use them for.
const (
	task    = asm.R6
	level   = asm.R7
	tgid    = asm.R7 // when the cgroup has been found
	watched = asm.R8
	deepest = asm.R8 // until then: the level of the cgroup that was found
	entry   = asm.R9 // of the ring buffer
	above   = asm.R9 // until then, without a helper for it: the ids of the cgroups above
)

// What is on the stack, below the frame pointer.
const (
	stackCgroup = -8
	stackPlace  = -16
	stackSignal = -24
	stackLeader = -32
	stackState  = -40
	stackMaxRSS = -48
	stackLevel  = -56
)

const (
	taskDead = 0x80 // TASK_DEAD of sched.h
	// mostLevels are those of a watched cgroup that has others below it, the root being 0: the kernel checks the programs
	// for each level.
	mostLevels = 16
	forceWake  = 2 // BPF_RB_FORCE_WAKEUP
	noWake     = 1 // BPF_RB_NO_WAKEUP
	available  = 0 // BPF_RB_AVAIL_DATA

	// An entry of shared.inherited has the PID, at most PID_MAX_LIMIT, a bit that says whether its place was another
	// process's, and the number of pages.
	pidShift  = 64 - 22
	pageBits  = pidShift - 1
	mostPages = 1<<pageBits - 1
)

// What is counted of a watched cgroup: see shared.watched.
const (
	atLost      = 8
	atForked    = 16
	atEnding    = 24
	atUncounted = 32
	watchedSize = 40
)

// shared is what the programs and this process share.
type shared struct {
	// watched has, by the id of a cgroup, the number of its watch, the records that were lost of it, the processes that
	// were forked in it, the threads that have begun to end there, and what can have packets that are not counted.
	watched *ebpf.Map
	// inherited has what signal_struct.maxrss of a process was when it executed its program, in pages below its PID, by
	// the last bits of that: an array is read and written in place, while a hash map takes as long as all the rest of an
	// exec's program.
	inherited *ebpf.Map
	ring      *ebpf.Map
	// one has the cgroup of a reader of one, which then has ownKey in watched; nil for a reader of many.
	one *ebpf.Map
}

// ownKey is no cgroup's id.
const ownKey = 0

// exitProgram writes a record for each task that the scheduler switches away from for the last time. By then its last
// slice is in its account, and in that of its cgroup.
func exitProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	current := asm.Instructions{asm.FnGetCurrentTask.Call().WithSymbol("dead"), asm.Mov.Reg(task, asm.R0)}
	ifDead := asm.Instructions{asm.JSet.Imm(asm.R1, taskDead, "dead"), asm.Ja.Label("end")}
	var code asm.Instructions
	if o.stateArgument >= 0 {
		code = slices.Concat(
			asm.Instructions{asm.LoadMem(asm.R1, asm.R1, int16(8*o.stateArgument), asm.DWord)}, ifDead, current)
	} else {
		code = slices.Concat(
			asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(task, asm.R0)}, chase(stackState, task, 4, o.state),
			asm.Instructions{asm.LoadMem(asm.R1, asm.RFP, stackState, asm.Word)}, ifDead, current)
	}
	return program("sched_switch", code, filter(o, m), reserve(m), fill(o), peakBefore(m), submit(m))
}

// execProgram notes the peak that a process had when it executed its program: the kernel takes it over from the memory
// before, which is that of its parent.
func execProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	return program("sched_process_exec",
		asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(task, asm.R0)},
		filter(o, m),
		chase(stackMaxRSS, task, 8, o.signal, o.maxRSS),
		findInherited(m, "end"),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, stackMaxRSS, asm.DWord),
			asm.LSh.Imm(asm.R1, 64-pageBits), asm.RSh.Imm(asm.R1, 64-pageBits),
			asm.LoadImm(asm.R4, 1<<pageBits, asm.DWord),
			asm.LoadMem(asm.R2, asm.R0, 0, asm.DWord),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.And.Reg(asm.R3, asm.R4),
			asm.JEq.Imm(asm.R2, 0, "free"),
			asm.RSh.Imm(asm.R2, pidShift),
			asm.JEq.Reg(asm.R2, tgid, "free"),
			asm.Mov.Reg(asm.R3, asm.R4),
			asm.Or.Reg(asm.R1, asm.R3).WithSymbol("free"),
			asm.LSh.Imm(tgid, pidShift),
			asm.Or.Reg(asm.R1, tgid),
			asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		})
}

// forkProgram counts the processes that are forked in a cgroup: those that do not end there have left it. The current
// task is the parent, the second argument the child; a new thread is not the leader of its group.
func forkProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	return program("sched_process_fork",
		asm.Instructions{asm.LoadMem(task, asm.R1, 8, asm.DWord)},
		filter(o, m),
		chase(stackLeader, task, 8, o.leader),
		asm.Instructions{asm.LoadMem(asm.R1, asm.RFP, stackLeader, asm.DWord), asm.JNE.Reg(asm.R1, task, "end")},
		count(atForked))
}

// endingProgram counts the threads that begin to end, which is before their parents are told: the scheduler can take
// long to come back to one that has nothing left to do but end, and the record is written then.
func endingProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	spec := program("sched_process_exit", filter(o, m), count(atEnding), o.findSockets)
	spec.Instructions = append(spec.Instructions, o.eachSlot...)
	spec.Instructions[0] = function(spec.Instructions[0], spec.Name)
	return spec
}

// capableProgram counts the sockets of AF_PACKET and AF_XDP that were opened, by the checks for CAP_NET_RAW that were
// passed: an interpreter closes its sockets before it ends. Raw sockets, whose packets are counted, pass it as well.
func capableProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	const capability, refused = 8 * 3, 8 * 4 // arguments
	return program("cap_capable",
		asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, capability, asm.DWord), asm.JNE.Imm32(asm.R2, unix.CAP_NET_RAW, "end"),
			asm.LoadMem(asm.R2, asm.R1, refused, asm.DWord), asm.JNE.Imm32(asm.R2, 0, "end"),
		},
		filter(o, m), count(atUncounted))
}

// program puts the parts of one for a tracepoint together.
func program(tracepoint string, parts ...asm.Instructions) *ebpf.ProgramSpec {
	code := append(slices.Concat(parts...), asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	return &ebpf.ProgramSpec{
		Name: "tacho_" + strings.TrimPrefix(tracepoint, "sched_"), AttachTo: tracepoint,
		Type: ebpf.RawTracepoint, License: bpf.License, Instructions: code,
	}
}

// count adds one to a number of the watched cgroup.
func count(at int16) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(watched, asm.R1, asm.DWord, at)}
}

// filter ends the program unless the cgroup of the current task, or one above it, is watched. Of several that are
// watched it takes the deepest: the trial watches the root, and must not take the records of a task that runs
// meanwhile.
//
// It keeps the number of the deepest level and not what was found there, and asks nothing of that number, for the sake
// of the kernel's check of the program: that goes through the loop once for each value that it has to tell from
// others.
//
// For a reader of one that is a single question, which takes the kernel a quarter of the time to check.
func filter(o *offsets, m *shared) asm.Instructions {
	lookup := bpf.Lookup(m.watched, stackCgroup, asm.DWord)
	if m.one != nil {
		return slices.Concat(
			asm.Instructions{
				asm.LoadMapPtr(asm.R1, m.one.FD()), asm.Mov.Imm(asm.R2, 0),
				asm.FnCurrentTaskUnderCgroup.Call(),
				asm.Mov.Reg(asm.R1, asm.R0),
				asm.Mov.Imm(asm.R0, ownKey), asm.JEq.Imm(asm.R1, 1, "one"),
				asm.Mov.Imm(asm.R0, rootCgroup), // of the trial
				asm.Mov.Reg(asm.R0, asm.R0).WithSymbol("one"),
			},
			lookup,
			asm.Instructions{asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Reg(watched, asm.R0)},
		)
	}
	return slices.Concat(
		asm.Instructions{asm.FnGetCurrentCgroupId.Call()},
		lookup,
		asm.Instructions{
			asm.JNE.Imm(asm.R0, 0, "watched"),
			asm.Mov.Imm(deepest, 0),
			asm.Mov.Imm(level, 0),
		},
		o.findAbove(),
		o.ancestor(level, "level"), // from the root down: the depth of the task's cgroup is not known
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "deepest")},
		lookup,
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "deeper"),
			asm.Mov.Reg(deepest, level),
			asm.Add.Imm(level, 1).WithSymbol("deeper"),
			asm.JLT.Imm(level, mostLevels, "level"),
		},
		o.ancestor(deepest, "deepest"),
		lookup,
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Reg(watched, asm.R0).WithSymbol("watched")},
	)
}

// ancestor puts the id of the cgroup of a level that is above the current task, or its own, into R0; 0 for none. Linux
// 5.15 has a helper for that in programs for tracepoints, before that it is read from where the helper has it.
func (o *offsets) ancestor(level asm.Register, symbol string) asm.Instructions {
	if !o.walksCgroups {
		return asm.Instructions{asm.Mov.Reg(asm.R1, level).WithSymbol(symbol), asm.FnGetCurrentAncestorCgroupId.Call()}
	}
	none := "no_" + symbol
	return slices.Concat(
		asm.Instructions{
			asm.Mov.Imm(asm.R0, 0).WithSymbol(symbol),
			asm.LoadMem(asm.R1, asm.RFP, stackLevel, asm.Word),
			asm.JGT.Reg(level, asm.R1, none),
			asm.Mov.Reg(asm.R3, level), asm.LSh.Imm(asm.R3, 3), asm.Add.Reg(asm.R3, above),
		},
		readFrom(stackCgroup, 8, 0),
		asm.Instructions{
			asm.LoadMem(asm.R0, asm.RFP, stackCgroup, asm.DWord),
			asm.Mov.Reg(asm.R0, asm.R0).WithSymbol(none),
		},
	)
}

// findAbove finds the ids of the cgroups above the current task, and the level of its own.
func (o *offsets) findAbove() asm.Instructions {
	if !o.walksCgroups {
		return nil
	}
	return slices.Concat(
		asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(above, asm.R0)},
		chase(stackCgroup, above, 8, o.cgroups, o.dflCgroup),
		asm.Instructions{asm.LoadMem(above, asm.RFP, stackCgroup, asm.DWord)},
		chase(stackLevel, above, 4, o.level),
		asm.Instructions{asm.Add.Imm(above, o.ancestorIDs)})
}

// reserve gets room for a record, and counts it as lost without room.
func reserve(m *shared) asm.Instructions {
	return slices.Concat(
		asm.Instructions{
			asm.LoadMapPtr(asm.R1, m.ring.FD()),
			asm.Mov.Imm(asm.R2, recordSize),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRingbufReserve.Call(),
			asm.JNE.Imm(asm.R0, 0, "reserved"),
		},
		count(atLost),
		asm.Instructions{
			asm.Ja.Label("end"),
			asm.Mov.Reg(entry, asm.R0).WithSymbol("reserved"),
			asm.LoadMem(asm.R1, watched, 0, asm.DWord),
			asm.StoreMem(entry, atWatch, asm.R1, asm.DWord),
			asm.FnGetCurrentPidTgid.Call(),
			asm.StoreMem(entry, atPID, asm.R0, asm.DWord),
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(entry, atEnd, asm.R0, asm.DWord),
		},
	)
}

// fill copies the fields of the task, of its process, and of the process's first thread.
func fill(o *offsets) asm.Instructions {
	code := chase(stackSignal, task, 8, o.signal)
	code = append(code, chase(stackLeader, task, 8, o.leader)...)
	for _, f := range o.fields {
		if f.missing {
			code = append(code, zero(f.to)...)
			continue
		}
		switch f.of {
		case ofTask:
			code = append(code, asm.Mov.Reg(asm.R3, task))
		case ofSignal:
			code = append(code, asm.LoadMem(asm.R3, asm.RFP, stackSignal, asm.DWord))
		case ofLeader:
			code = append(code, asm.LoadMem(asm.R3, asm.RFP, stackLeader, asm.DWord))
		}
		code = append(code,
			asm.Mov.Reg(asm.R1, entry), asm.Add.Imm(asm.R1, int32(f.to)),
			asm.Mov.Imm(asm.R2, f.size),
			asm.Add.Imm(asm.R3, f.offset),
			asm.FnProbeReadKernel.Call())
	}
	return code
}

// peakBefore adds what execProgram noted, and forgets it when the process has ended. If another process has the place,
// or has had it, it is not known what this one has inherited.
func peakBefore(m *shared) asm.Instructions {
	code := append(zero(atInherited), findInherited(m, "submit")...)
	return append(code,
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "submit"),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.RSh.Imm(asm.R2, pidShift),
		asm.JEq.Reg(asm.R2, tgid, "own"),
		asm.LoadImm(asm.R1, mostPages, asm.DWord),
		asm.StoreMem(entry, atInherited, asm.R1, asm.DWord),
		asm.Ja.Label("submit"),
		asm.Mov.Reg(asm.R2, asm.R1).WithSymbol("own"),
		asm.LSh.Imm(asm.R1, 64-pageBits), asm.RSh.Imm(asm.R1, 64-pageBits),
		asm.StoreMem(entry, atInherited, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, entry, atLive, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "submit"),
		asm.LoadImm(asm.R1, 1<<pageBits, asm.DWord),
		asm.And.Reg(asm.R2, asm.R1), // a place that was another's stays marked: that one may be alive
		asm.StoreMem(asm.R0, 0, asm.R2, asm.DWord))
}

// findInherited puts the PID of the process into tgid, and the address of its place into R0.
func findInherited(m *shared, none string) asm.Instructions {
	code := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(tgid, asm.R0),
		asm.RSh.Imm(tgid, 32),
		asm.RSh.Imm(asm.R0, 32),
		asm.And.Imm(asm.R0, mostInherited-1),
	}
	code = append(code, bpf.Lookup(m.inherited, stackPlace, asm.Word)...)
	return append(code, asm.JEq.Imm(asm.R0, 0, none))
}

// submit hands the record over, and wakes the reader only if the buffer is half full: it looks by itself otherwise.
func submit(m *shared) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.ring.FD()).WithSymbol("submit"),
		asm.Mov.Imm(asm.R2, available),
		asm.FnRingbufQuery.Call(),
		asm.Mov.Imm(asm.R2, noWake),
		asm.JLT.Imm(asm.R0, ringSize/2, "quiet"),
		asm.Mov.Imm(asm.R2, forceWake),
		asm.Mov.Reg(asm.R1, entry).WithSymbol("quiet"),
		asm.FnRingbufSubmit.Call(),
	}
}

// zero writes 8 bytes of the record.
func zero(to int16) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, 0), asm.StoreMem(entry, to, asm.R1, asm.DWord)}
}

// readFrom copies a field of the struct whose address is in R3.
func readFrom(to int16, size, offset int32) asm.Instructions {
	return asm.Instructions{
		asm.Add.Imm(asm.R3, offset),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadKernel.Call(),
	}
}

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
	// stateArgument is the argument of sched_switch that has the state of the task before; -1 if it must be read of the
	// task.
	stateArgument                       int
	state, signal, leader, maxRSS, live int32
	fields                              []field
	hasDelay, hasIO                     bool
	// walksCgroups says that the programs find the cgroups above a task by the offsets after it.
	walksCgroups                           bool
	cgroups, dflCgroup, level, ancestorIDs int32
	// findSockets and eachSlot are parts of a program, nil on such kernels; ifSocket and ifUncounted of others.
	findSockets, eachSlot, ifSocket, ifUncounted asm.Instructions
	// argument is where a probe has the first argument of a function, if probes says that this is known.
	argument int32
	probes   bool
	// capable says that there is a tracepoint for checks of capabilities, as in Linux 6.14.
	capable bool
}

func readOffsets(fs kernel.FS) (*offsets, error) {
	types, err := kernel.OpenBTF(fs)
	if err != nil {
		return nil, withoutTypes(fs, err)
	}
	o := offsetsOf(types)
	return o, errors.Join(types.Err(), types.Close())
}

func offsetsOf(types *kernel.BTF) *offsets {
	o := &offsets{
		capable:       slices.Equal(types.TracepointArguments("cap_capable"), []bool{false, false, false, true, true}),
		stateArgument: -1, state: types.Offset("task_struct", "__state", "state"),
		signal: types.Offset("task_struct", "signal"),
		leader: types.Offset("task_struct", "group_leader"), maxRSS: types.Offset("signal_struct", "maxrss"),
		live: types.Offset("signal_struct", "live"), cgroups: types.Offset("task_struct", "cgroups"),
		dflCgroup: types.Offset("css_set", "dfl_cgrp"),
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
	add(ofSignal, atLive, 4, o.live)
	add(ofSignal, atThreads, 4, types.Offset("signal_struct", "nr_threads"))
	add(ofSignal, atReleased, 8, types.Offset("signal_struct", "sum_sched_runtime"))
	add(ofSignal, atMaxRSS, 8, o.maxRSS)
	add(ofTask, atCPU, 8, types.Offset("task_struct", "se")+types.Offset("sched_entity", "sum_exec_runtime"))
	for i, name := range []string{"min_flt", "maj_flt", "nvcsw", "nivcsw"} {
		add(ofTask, atMinorFaults+8*int16(i), 8, types.Offset("task_struct", name)) //nolint:gosec // four of them
	}
	o.addOptional(types)
	o.ifSocket, o.ifUncounted = socketOf(types, "end"), ifUncounted(types, asm.RFP, stackPlace, "end")
	// The names are those of amd64 and arm64.
	o.argument, o.probes = types.OptionalOffset("pt_regs", "di", "user_regs")
	if o.ancestorIDs, o.walksCgroups = types.OptionalOffset("cgroup", "ancestor_ids"); o.walksCgroups { // Linux 5.5 to 6.0
		o.level = types.Offset("cgroup", "level")
	} else {
		o.findSockets, o.eachSlot = o.findingSockets(types), eachSlot(types)
	}
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
