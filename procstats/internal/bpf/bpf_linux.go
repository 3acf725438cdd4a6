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
	"path/filepath"
	"strings"

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

// Explain says what is missing where programs are refused: capabilities, or a kernel that has what they need.
func Explain(host kernel.FS, err error, capabilities, system string) error {
	var refused *ebpf.VerifierError
	lockdown, _ := os.ReadFile(filepath.Join(host.Sys, "kernel/security/lockdown"))
	switch {
	case strings.Contains(string(lockdown), "[confidentiality]"):
		return fmt.Errorf("the kernel is locked down: %w", err)
	case errors.As(err, &refused):
		return fmt.Errorf("the kernel's verifier refused a program: %w", err)
	case os.Geteuid() == 0 && errors.Is(err, unix.EPERM): // a container can take the capabilities from root
		const limit = "before Linux 5.11 a limit of locked memory (ulimit -l) that has room for it"
		return fmt.Errorf("%s are required, and %s: %w", capabilities, limit, unix.EPERM)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES): // not the text of the library, which suspects a limit
		return fmt.Errorf("%s are required; run as root: %w", capabilities, unix.EPERM)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("it takes %s: %w", system, err)
	}
	return err
}
