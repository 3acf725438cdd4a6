// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
)

// mostReaders bounds the readers on a machine: every context switch runs the programs of them all, some 50 ns each.
const mostReaders = 16

// checkReaders returns an error if as many readers as may be on this machine have loaded this program before. The loaded programs
// themselves are counted: nobody can pretend to be a reader who may not load them, whatever namespaces they are in. Without
// CAP_SYS_ADMIN the kernel does not list them, and there is no bound.
func checkReaders(own *ebpf.Program, most int) error {
	before, err := readersBefore(own)
	if err != nil || before < most {
		return nil //nolint:nilerr // it is a courtesy to the machine, and no reason not to count
	}
	return fmt.Errorf("%d other processes do on this machine, and each slows every context switch down: %w", before, ErrBusy)
}

// readersBefore counts the programs of the name and type of own that were loaded before it, so that of several that are loaded at
// once the first stay.
func readersBefore(own *ebpf.Program) (int, error) {
	self, err := own.Info()
	if err != nil {
		return 0, err //nolint:wrapcheck // it is not shown
	}
	last, _ := self.ID()
	n, id := 0, ebpf.ProgramID(0)
	for {
		if id, err = ebpf.ProgramGetNextID(id); errors.Is(err, fs.ErrNotExist) || err == nil && id >= last {
			return n, nil
		}
		if err != nil {
			return 0, err //nolint:wrapcheck // it is not shown
		}
		if isReader(id, self.Name) {
			n++
		}
	}
}

// isReader reports whether a loaded program is for a raw tracepoint and has a name. One that is unloaded meanwhile is not, nor is one
// that the library does not know.
func isReader(id ebpf.ProgramID, name string) bool {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false
	}
	defer p.Close()
	if p.Type() != ebpf.RawTracepoint {
		return false
	}
	info, err := p.Info()
	return err == nil && info.Name == name
}
