// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// license is what the kernel is told: this source is MPL-2.0, which may be combined with the GPL, and only such programs may
// read kernel memory.
const license = "Dual MPL/GPL"

// Registers that calls leave alone, and what the programs use them for.
const (
	task    = asm.R6
	level   = asm.R7
	tgid    = asm.R7 // when the cgroup has been found
	watched = asm.R8
	deepest = asm.R8 // until then: the level of the cgroup that was found
	entry   = asm.R9 // of the ring buffer
)

// What is on the stack, below the frame pointer.
const (
	stackCgroup = -8
	stackPlace  = -16
	stackSignal = -24
	stackLeader = -32
	stackState  = -40
	stackMaxRSS = -48
)

const (
	taskDead   = 0x80 // TASK_DEAD of sched.h
	mostLevels = 16   // of a watched cgroup that has others below it, the root being 0: the kernel checks the programs for each level
	forceWake  = 2    // BPF_RB_FORCE_WAKEUP
	noWake     = 1    // BPF_RB_NO_WAKEUP
	available  = 0    // BPF_RB_AVAIL_DATA

	// An entry of shared.inherited has the PID, at most PID_MAX_LIMIT, a bit that says whether its place was another process's, and
	// the number of pages.
	pidShift  = 64 - 22
	pageBits  = pidShift - 1
	mostPages = 1<<pageBits - 1
)

// shared is what the programs and this process share.
type shared struct {
	// watched has, by the id of a cgroup, the number of its watch, the records that were lost of it, the processes that were
	// forked in it, and the threads that have begun to end there.
	watched *ebpf.Map
	// inherited has what signal_struct.maxrss of a process was when it executed its program, in pages below its PID, by the last
	// bits of that: an array is read and written in place, while a hash map takes as long as all the rest of an exec's program.
	inherited *ebpf.Map
	ring      *ebpf.Map
}

// exitProgram writes a record for each task that the scheduler switches away from for the last time. By then its last slice
// is in its account, and in that of its cgroup.
func exitProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	code := asm.Instructions{}
	if o.stateArgument >= 0 {
		code = append(code,
			asm.LoadMem(asm.R1, asm.R1, int16(8*o.stateArgument), asm.DWord),
			asm.JSet.Imm(asm.R1, taskDead, "dead"), asm.Ja.Label("end"),
			asm.FnGetCurrentTask.Call().WithSymbol("dead"),
			asm.Mov.Reg(task, asm.R0))
	} else {
		code = append(code, asm.FnGetCurrentTask.Call(), asm.Mov.Reg(task, asm.R0))
		code = append(code, read(stackState, 4, o.state)...)
		code = append(code, asm.LoadMem(asm.R1, asm.RFP, stackState, asm.Word), asm.JSet.Imm(asm.R1, taskDead, "dead"), asm.Ja.Label("end"),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("dead"))
	}
	code = append(code, filter(m)...)
	code = append(code, reserve(m)...)
	code = append(code, fill(o)...)
	code = append(code, peakBefore(m)...)
	code = append(code, submit(m)...)
	return program("sched_switch", code)
}

// execProgram notes the peak that a process had when it executed its program: the kernel takes it over from the memory
// before, which is that of its parent.
func execProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	code := asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(task, asm.R0)}
	code = append(code, filter(m)...)
	code = append(code, read(stackSignal, 8, o.signal)...)
	code = append(code, asm.LoadMem(asm.R3, asm.RFP, stackSignal, asm.DWord))
	code = append(code, readFrom(stackMaxRSS, 8, o.maxRSS)...)
	code = append(code, findInherited(m, "end")...)
	code = append(code,
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
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
	return program("sched_process_exec", code)
}

// forkProgram counts the processes that are forked in a cgroup: those that do not end there have left it. The current task is the
// parent, the second argument the child; a new thread is not the leader of its group.
func forkProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	code := asm.Instructions{asm.LoadMem(task, asm.R1, 8, asm.DWord)}
	code = append(code, filter(m)...)
	code = append(code, read(stackLeader, 8, o.leader)...)
	code = append(code,
		asm.LoadMem(asm.R1, asm.RFP, stackLeader, asm.DWord),
		asm.JNE.Reg(asm.R1, task, "end"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(watched, asm.R1, asm.DWord, 16))
	return program("sched_process_fork", code)
}

// endingProgram counts the threads that begin to end, which is before their parents are told: the scheduler can take long to come
// back to one that has nothing left to do but end, and the record is written then.
func endingProgram(m *shared) *ebpf.ProgramSpec {
	code := append(filter(m),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(watched, asm.R1, asm.DWord, 24))
	return program("sched_process_exit", code)
}

func program(name string, code asm.Instructions) *ebpf.ProgramSpec {
	code = append(code, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	return &ebpf.ProgramSpec{Name: "tacho_" + name[len("sched_"):], Type: ebpf.RawTracepoint, License: license, Instructions: code}
}

// filter ends the program unless the cgroup of the current task, or one above it, is watched. Of several that are watched it takes the
// deepest: the trial watches the root, and must not take the records of a task that runs meanwhile.
//
// It keeps the number of the deepest level and not what was found there, and asks nothing of that number, for the sake of the kernel's
// check of the program: that goes through the loop once for each value that it has to tell from others.
func filter(m *shared) asm.Instructions {
	lookup := asm.Instructions{
		asm.StoreMem(asm.RFP, stackCgroup, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, m.watched.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackCgroup),
		asm.FnMapLookupElem.Call(),
	}
	code := asm.Instructions{asm.FnGetCurrentCgroupId.Call()}
	code = append(code, lookup...)
	code = append(code,
		asm.JNE.Imm(asm.R0, 0, "watched"),
		asm.Mov.Imm(deepest, 0),
		asm.Mov.Imm(level, 0),
		asm.Mov.Reg(asm.R1, level).WithSymbol("level"), // from the root down: how deep the task's cgroup is, is not known
		asm.FnGetCurrentAncestorCgroupId.Call(),
		asm.JEq.Imm(asm.R0, 0, "deepest"))
	code = append(code, lookup...)
	code = append(code,
		asm.JEq.Imm(asm.R0, 0, "deeper"),
		asm.Mov.Reg(deepest, level),
		asm.Add.Imm(level, 1).WithSymbol("deeper"),
		asm.JLT.Imm(level, mostLevels, "level"),
		asm.Mov.Reg(asm.R1, deepest).WithSymbol("deepest"),
		asm.FnGetCurrentAncestorCgroupId.Call())
	code = append(code, lookup...)
	return append(code,
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(watched, asm.R0).WithSymbol("watched"))
}

// reserve gets room for a record, and counts it as lost if there is none.
func reserve(m *shared) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.ring.FD()),
		asm.Mov.Imm(asm.R2, recordSize),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JNE.Imm(asm.R0, 0, "reserved"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(watched, asm.R1, asm.DWord, 8),
		asm.Ja.Label("end"),
		asm.Mov.Reg(entry, asm.R0).WithSymbol("reserved"),
		asm.LoadMem(asm.R1, watched, 0, asm.DWord),
		asm.StoreMem(entry, atWatch, asm.R1, asm.DWord),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(entry, atPID, asm.R0, asm.DWord),
	}
}

// fill copies the fields of the task, of its process, and of the process's first thread.
func fill(o *offsets) asm.Instructions {
	code := read(stackSignal, 8, o.signal)
	code = append(code, read(stackLeader, 8, o.leader)...)
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

// peakBefore adds what execProgram noted, and forgets it when the process has ended. If another process has the place, or
// has had it, it is not known what this one has inherited.
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
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(tgid, asm.R0),
		asm.RSh.Imm(tgid, 32),
		asm.RSh.Imm(asm.R0, 32),
		asm.And.Imm(asm.R0, mostInherited-1),
		asm.StoreMem(asm.RFP, stackPlace, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.inherited.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackPlace),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
	}
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

// read copies a field of the task to the stack.
func read(to int16, size, offset int32) asm.Instructions {
	return append(asm.Instructions{asm.Mov.Reg(asm.R3, task)}, readFrom(to, size, offset)...)
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
