// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/internal/bpf"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Counter counts the packets of one cgroup until it is closed. The counts outlive the cgroup.
type Counter struct {
	links []*link.RawLink
	// memory is the map's, a Counts for each CPU: it is read without a system call, because every tick reads it.
	memory []byte
	cpus   int
	// closed is what was counted when it was closed.
	closed Counts
}

// Count begins with the cgroup in dir, a directory of the version 2 hierarchy.
func Count(host kernel.FS, dir string) (*Counter, error) {
	var c *Counter
	if err := bpf.Load(host, func() (err error) { c, err = open(dir); return err }); err != nil {
		return nil, explain(host, err)
	}
	return c, nil
}

func open(dir string) (_ *Counter, err error) {
	cgroup, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("count packets of cgroup: %w", err)
	}
	defer func() { err = errors.Join(err, cgroup.Close()) }()
	c := &Counter{}
	m, err := c.makeMap()
	if err != nil {
		return nil, fmt.Errorf("create BPF map: %w", err)
	}
	err = errors.Join(
		c.attach(cgroup, "tacho_received", ebpf.AttachCGroupInetIngress, m, Received),
		c.attach(cgroup, "tacho_sent", ebpf.AttachCGroupInetEgress, m, Sent),
	)
	if err = errors.Join(err, m.Close()); err != nil { // the programs hold it
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// makeMap makes the map with a place for each CPU, and maps its memory: BPF_F_MMAPABLE, since Linux 5.5.
func (c *Counter) makeMap() (m *ebpf.Map, err error) {
	if c.cpus, err = ebpf.PossibleCPU(); err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	m, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "tacho_network", Type: ebpf.Array, KeySize: 4, ValueSize: countsSize,
		MaxEntries: uint32(c.cpus), Flags: unix.BPF_F_MMAPABLE, //nolint:gosec // few
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // by the caller
	}
	c.memory, err = unix.Mmap(m.FD(), 0, c.cpus*countsSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), m.Close())
	}
	return m, nil
}

// attach adds a program to those of the cgroup. A link never replaces others, and the kernel removes it with this
// process.
func (c *Counter) attach(cgroup *os.File, name string, to ebpf.AttachType, m *ebpf.Map, way int16) error {
	spec := program(name, to, m, way)
	l, err := bpf.Attach(spec, func(p *ebpf.Program) (*link.RawLink, error) {
		return link.AttachRawLink(link.RawLinkOptions{Target: int(cgroup.Fd()), Program: p, Attach: to})
	})
	if err != nil {
		return fmt.Errorf("attach BPF program to cgroup %s: %w", cgroup.Name(), err)
	}
	c.links = append(c.links, l)
	return nil
}

// Read returns what was counted so far. It does nothing but add numbers up.
func (c *Counter) Read() Counts {
	sum := c.closed
	for cpu := range c.cpus {
		for way := range sum {
			at := c.memory[cpu*countsSize+way*trafficSize:]
			sum[way].Bytes += load(at)
			sum[way].Packets += load(at[packetsField:])
		}
	}
	return sum
}

// load reads a number that the kernel adds to meanwhile.
func load(at []byte) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(at))))
}

// Close detaches the programs.
func (c *Counter) Close() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	if c.memory != nil {
		c.closed = c.Read()
		errs = append(errs, os.NewSyscallError("munmap", unix.Munmap(c.memory)))
		c.memory, c.cpus = nil, 0
	}
	return errors.Join(errs...)
}

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
	countsSize   = 4 * trafficSize
	stackKey     = -4
	allowPacket  = 1
	packetsField = 8
)

// program counts each packet as of a way, and those of the loopback interface as of the next.
// On one CPU a softirq can interrupt it, hence the atomic additions.
func program(name string, attach ebpf.AttachType, m *ebpf.Map, way int16) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.CGroupSKB, AttachType: attach, License: bpf.License,
		Instructions: slices.Concat(
			asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.FnGetSmpProcessorId.Call()},
			bpf.Lookup(m, stackKey, asm.Word),
			asm.Instructions{
				asm.JEq.Imm(asm.R0, 0, "allow"),
				asm.LoadMem(asm.R1, asm.R6, atInterface, asm.Word),
				asm.LoadMem(asm.R2, asm.R6, atLength, asm.Word),
				asm.JNE.Imm(asm.R1, loopback, "count"),
				asm.Add.Imm(asm.R0, trafficSize),
				asm.AddAtomic.Mem(asm.R0, asm.R2, asm.DWord, way*trafficSize).WithSymbol("count"),
				asm.Mov.Imm(asm.R2, 1),
				asm.AddAtomic.Mem(asm.R0, asm.R2, asm.DWord, way*trafficSize+packetsField),
				asm.Mov.Imm(asm.R0, allowPacket).WithSymbol("allow"),
				asm.Return(),
			},
		),
	}
}
