// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/internal/bpf"
	"github.com/tachograph/tacho/procstats/kernel"
)

// mostSlots bounds the descriptors of a process that are looked at.
const mostSlots = 1024

// Where the loop over the descriptors has what, from the lowest place on the stack up.
const (
	loopFDs    = 0
	loopGroup  = 8
	loopWatch  = 16
	loopOpen   = 24
	loopBits   = 32         // one for each of 64 descriptors that is open
	stackSlots = stackLevel // not used on kernels with bpf_loop
	stackLoop  = stackSlots - 40
	stackAt    = -8 // in the loop's own frame
)

// Registers of the loop.
const (
	loop   = asm.R6
	slot   = asm.R7
	family = asm.R7 // when the slot has been read
	file   = asm.R8
	sock   = asm.R9
)

// findingSockets looks at the descriptors of a process when its last thread ends, which is before they are closed. The
// kernel checks the function of a bpf_loop, of Linux 5.17, once or twice, but a loop within a program once for each
// run: with 64 descriptors that takes it 9 ms.
func (o *offsets) findingSockets(types *kernel.BTF) asm.Instructions {
	files, table := types.Offset("task_struct", "files"), types.Offset("files_struct", "fdt")
	return slices.Concat(
		asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(task, asm.R0)},
		chase(stackSlots, task, 4, o.signal, o.live),
		asm.Instructions{asm.LoadMem(asm.R1, asm.RFP, stackSlots, asm.Word), asm.JNE.Imm(asm.R1, 0, "end")},
		chase(stackLoop+loopFDs, task, 8, files, table, types.Offset("fdtable", "fd")),
		chase(stackLoop+loopOpen, task, 8, files, table, types.Offset("fdtable", "open_fds")),
		chase(stackLoop+loopGroup, task, 8, o.cgroups, o.dflCgroup),
		chase(stackSlots, task, 4, files, table, types.Offset("fdtable", "max_fds")),
		asm.Instructions{
			asm.StoreMem(asm.RFP, stackLoop+loopWatch, watched, asm.DWord),
			asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, stackLoop+loopBits, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, stackSlots, asm.Word), asm.JLE.Imm(asm.R1, mostSlots, "all"),
		},
		count(atUncounted), // one of the others may be one
		asm.Instructions{
			asm.Mov.Imm(asm.R1, mostSlots),
			asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.
				WithReference("slot").WithSymbol("all"),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, stackLoop), asm.Mov.Imm(asm.R4, 0), asm.FnLoop.Call(),
		})
}

// function names and describes one by its first instruction, which a program with more than one must.
func function(first asm.Instruction, name string) asm.Instruction {
	result := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	return btf.WithFuncMetadata(first.WithSymbol(name), &btf.Func{Name: name, Type: &btf.FuncProto{Return: result}})
}

// eachSlot is the function that the loop runs for each descriptor.
func eachSlot(types *kernel.BTF) asm.Instructions {
	at := asm.LoadMem(asm.R1, asm.RFP, stackAt, asm.DWord)
	code := slices.Concat(
		asm.Instructions{
			asm.Mov.Reg(slot, asm.R1), asm.Mov.Reg(loop, asm.R2), asm.And.Imm(asm.R1, 63), asm.JNE.Imm(asm.R1, 0, "bit"),
			asm.LoadMem(file, loop, loopOpen, asm.DWord),
			asm.Mov.Reg(asm.R1, slot), asm.RSh.Imm(asm.R1, 3), asm.Add.Reg(file, asm.R1),
		},
		chase(stackAt, file, 8, 0),
		asm.Instructions{
			at, asm.StoreMem(loop, loopBits, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, loop, loopBits, asm.DWord).WithSymbol("bit"), asm.Mov.Reg(asm.R2, slot),
			asm.And.Imm(asm.R2, 63), asm.RSh.Reg(asm.R1, asm.R2), asm.And.Imm(asm.R1, 1), asm.JEq.Imm(asm.R1, 0, "next"),
			asm.LoadMem(file, loop, loopFDs, asm.DWord), asm.LSh.Imm(slot, 3), asm.Add.Reg(file, slot),
		},
		chase(stackAt, file, 8, 0), asm.Instructions{at, asm.Mov.Reg(file, asm.R1)},
		socketOf(types, "next"), ifUncounted(types, loop, loopGroup, "next"),
		asm.Instructions{
			asm.LoadMem(asm.R2, loop, loopWatch, asm.DWord), asm.Mov.Imm(asm.R1, 1),
			asm.AddAtomic.Mem(asm.R2, asm.R1, asm.DWord, atUncounted),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("next"), asm.Return(),
		})
	code[0] = function(code[0], "slot")
	return code
}

// socketOf finds the socket of a file: one that has the file. What files of other kinds have there is another's
// address.
func socketOf(types *kernel.BTF, none string) asm.Instructions {
	private := types.Offset("file", "private_data")
	at := asm.LoadMem(asm.R1, asm.RFP, stackAt, asm.DWord)
	return slices.Concat(
		chase(stackAt, file, 8, private, types.Offset("socket", "file")),
		asm.Instructions{at, asm.JNE.Reg(asm.R1, file, none)},
		chase(stackAt, file, 8, private, types.Offset("socket", "sk")), asm.Instructions{at, asm.Mov.Reg(sock, asm.R1)})
}

// ifUncounted goes to none unless the packets of a socket are not counted by the task's cgroup, whose address is in
// memory: those of AF_PACKET and AF_XDP, and of a socket that was made in another cgroup, however it came here.
func ifUncounted(types *kernel.BTF, memory asm.Register, group int16, none string) asm.Instructions {
	return slices.Concat(
		chase(stackAt, sock, 2, types.Offset("sock", "__sk_common")+types.Offset("sock_common", "skc_family")),
		asm.Instructions{asm.LoadMem(family, asm.RFP, stackAt, asm.Half)},
		chase(stackAt, sock, 8, types.Offset("sock", "sk_cgrp_data")),
		asm.Instructions{
			asm.JEq.Imm(family, unix.AF_PACKET, "uncounted"), asm.JEq.Imm(family, unix.AF_XDP, "uncounted"),
			asm.LoadMem(asm.R1, asm.RFP, stackAt, asm.DWord), asm.LoadMem(asm.R2, memory, group, asm.DWord),
			asm.JEq.Reg(asm.R1, asm.R2, none),
			asm.JEq.Imm(family, unix.AF_INET, "uncounted"), asm.JNE.Imm(family, unix.AF_INET6, none),
			asm.Mov.Reg(sock, sock).WithSymbol("uncounted"),
		})
}

// findingGroup copies the address of the current task's cgroup to the stack.
func (o *offsets) findingGroup() asm.Instructions {
	return append(asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(task, asm.R0)},
		chase(stackPlace, task, 8, o.cgroups, o.dflCgroup)...)
}

// receivedProgram counts the sockets that the task is handed by others, all of which the kernel shows its security
// modules in one place: those of SCM_RIGHTS, pidfd_getfd(2) and seccomp.
func receivedProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	spec := program("security_file_receive",
		asm.Instructions{asm.LoadMem(file, asm.R1, int16(o.argument), asm.DWord)}, //nolint:gosec // small
		o.findingGroup(), o.ifSocket, o.ifUncounted, filter(o, m), count(atUncounted))
	spec.Type = ebpf.Kprobe
	return spec
}

// openedProgram counts the sockets of AF_PACKET and AF_XDP that the task opens, or tries to, on kernels without the
// tracepoint of capableProgram.
func openedProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	spec := program("security_socket_create",
		asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, int16(o.argument), asm.DWord), //nolint:gosec // small
			asm.JEq.Imm32(asm.R2, unix.AF_PACKET, "packets"), asm.JNE.Imm32(asm.R2, unix.AF_XDP, "end"),
			asm.Mov.Imm(asm.R2, 0).WithSymbol("packets"),
		},
		filter(o, m), count(atUncounted))
	spec.Type = ebpf.Kprobe
	return spec
}

// usedProgram counts one socket if the task sends or receives by any that its cgroup does not count. Every packet on
// the machine runs it, so that the quicker question is the first.
func usedProgram(o *offsets, m *shared) *ebpf.ProgramSpec {
	first, second := filter(o, m), slices.Concat(o.findingGroup(), o.ifUncounted)
	if m.one == nil {
		first, second = second, first
	}
	return program("sock_send_length", asm.Instructions{asm.LoadMem(sock, asm.R1, 0, asm.DWord)}, first, second,
		asm.Instructions{asm.LoadMem(asm.R1, watched, atUncounted, asm.DWord), asm.JNE.Imm(asm.R1, 0, "end")},
		count(atUncounted))
}

// watchReceived attaches what sees the sockets that tasks are handed: by the function that receives them, which costs
// packets nothing, or else by their use, which takes some 3 % of the time of a small packet.
func (r *Reader) watchReceived(o *offsets) error {
	_, err := os.Stat(filepath.Join(r.host.Sys, "bus/event_source/devices/kprobe"))
	if err == nil && o.probes {
		err = r.attach(receivedProgram(o, &r.maps))
		if err == nil && !o.capable {
			err = r.attach(openedProgram(o, &r.maps))
		}
		if err == nil {
			return nil
		}
	}
	if other := r.attach(usedProgram(o, &r.maps), "sock_recv_length"); other != nil { // Linux 6.3
		return bpf.NewRefused("sockets that the task may have been handed are not seen",
			"a kernel with CONFIG_KPROBE_EVENTS=y, or Linux 6.3", errors.Join(err, other))
	}
	return nil
}

// chase copies a field of what pointers lead to, to the stack. The first is in the struct whose address is in a
// register.
func chase(to int16, from asm.Register, size int32, offsets ...int32) asm.Instructions {
	code := asm.Instructions{asm.Mov.Reg(asm.R3, from)}
	for _, pointer := range offsets[:len(offsets)-1] {
		code = append(append(code, readFrom(to, 8, pointer)...), asm.LoadMem(asm.R3, asm.RFP, to, asm.DWord))
	}
	return append(code, readFrom(to, size, offsets[len(offsets)-1])...)
}
