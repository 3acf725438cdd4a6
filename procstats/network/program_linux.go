// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Where the context of a program, struct __sk_buff, has what.
const (
	atLength    = 0  // from the IP header on
	atInterface = 40 // ifindex
)

// loopback is the index of the interface lo in every network namespace.
const loopback = 1

// The map has a Counts for each CPU.
const (
	trafficSize  = 16
	receivedAt   = 0
	sentAt       = 2 * trafficSize
	countsSize   = 4 * trafficSize
	stackKey     = -4
	allowPacket  = 1
	packetsField = 8
)

// program counts each packet at an offset of the map's value, and at the next place those of the loopback interface. On one
// CPU a softirq can interrupt it, hence the atomic additions.
func program(name string, attach ebpf.AttachType, m *ebpf.Map, at int16) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.CGroupSKB, AttachType: attach, License: "Dual MPL/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.FnGetSmpProcessorId.Call(),
			asm.StoreMem(asm.RFP, stackKey, asm.R0, asm.Word),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackKey),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "allow"),
			asm.LoadMem(asm.R1, asm.R6, atInterface, asm.Word),
			asm.LoadMem(asm.R2, asm.R6, atLength, asm.Word),
			asm.JNE.Imm(asm.R1, loopback, "count"),
			asm.Add.Imm(asm.R0, trafficSize),
			asm.AddAtomic.Mem(asm.R0, asm.R2, asm.DWord, at).WithSymbol("count"),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R0, asm.R2, asm.DWord, at+packetsField),
			asm.Mov.Imm(asm.R0, allowPacket).WithSymbol("allow"),
			asm.Return(),
		},
	}
}
