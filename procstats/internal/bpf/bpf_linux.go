// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package bpf is what the programs of packages exits and network have in common: how they are loaded, how they look
// something up, and why they are refused.
package bpf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// License is what the kernel is told: this source is MPL-2.0, which may be combined with the GPL, and only such
// programs may read kernel memory.
const License = "Dual MPL/GPL"

// Attach loads a program and attaches it. What attach returns holds the program from then on.
func Attach[L io.Closer](spec *ebpf.ProgramSpec, attach func(p *ebpf.Program) (L, error)) (link L, err error) {
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return link, fmt.Errorf("load BPF program %s: %w", spec.Name, err)
	}
	link, err = attach(p)
	return link, errors.Join(err, p.Close())
}

// Lookup looks the key in R0 up, which goes to a place on the stack. The address of its value is in R0 afterwards, 0
// for none.
func Lookup(m *ebpf.Map, place int16, size asm.Size) asm.Instructions {
	return asm.Instructions{
		asm.StoreMem(asm.RFP, place, asm.R0, size),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(place)),
		asm.FnMapLookupElem.Call(),
	}
}

// Load runs what creates maps and loads programs. Before Linux 5.11 their memory is counted against RLIMIT_MEMLOCK, of
// which most users have 64 KiB, so the limit is raised meanwhile, and nothing is forked that would inherit it.
func Load(host kernel.FS, load func() error) error {
	if kernel.OSRelease(host).AtLeast(5, 11) {
		return load()
	}
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &own); err != nil {
		return errors.Join(os.NewSyscallError("getrlimit", err), load())
	}
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil { // without CAP_SYS_RESOURCE
		limit = unix.Rlimit{Cur: own.Max, Max: own.Max}
		_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)
	}
	err := load()
	if errors.Is(err, unix.EPERM) && limit.Max != unix.RLIM_INFINITY {
		err = &memlockError{limit.Max, err}
	}
	return errors.Join(err, os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_MEMLOCK, &own)))
}

// memlockError is a refusal below a limit of locked memory that could not be raised.
type memlockError struct {
	limit uint64
	error
}

func (e *memlockError) Unwrap() error { return e.error }
