// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/internal/bpf"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// rootCgroup is the id of the first cgroup of the hierarchy.
	rootCgroup = 1
	// tryLimit is how long the record of a thread may take that has ended.
	tryLimit = 200 * time.Millisecond
)

// checkNamespace refuses another PID namespace than the initial one, in which the kernel's numbers are not those of
// /proc.
func checkNamespace(host kernel.FS) error {
	if name := kernel.PIDNamespace(host); name != "" && !kernel.InInitialPIDNamespace(host) {
		return bpf.NewRefused("the initial PID namespace is required", "run outside of containers, or docker run --pid=host",
			fmt.Errorf("%s is %s", filepath.Join(host.Proc, "self/ns/pid"), name))
	}
	return nil
}

var errSilent = errors.New("the kernel did not report its end")

// Try ends a thread of this process, and waits for its record. It also refuses one reader too many, which takes three
// calls for each program on the machine: a task that is over before is spared that.
func (r *Reader) Try() error {
	if len(r.links) > 0 {
		info, err := r.links[0].Info()
		if err == nil {
			err = checkReaders(info.Program, mostReaders)
		}
		if errors.Is(err, ErrBusy) { // of all else it is a courtesy to the machine, and no reason not to count
			return err
		}
	}
	w, err := r.watch(rootCgroup)
	if err != nil {
		return fmt.Errorf("try the programs: %w", err)
	}
	self := uint32(os.Getpid()) //nolint:gosec // a PID
	endThread()
	reported := r.await(tryLimit, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for id, p := range w.tally.open {
			if id.pid == self && p.use.cpu > 0 {
				return true
			}
		}
		return false
	})
	if !reported {
		err = fmt.Errorf("thread of process %d: %w", self, errSilent)
	}
	return errors.Join(err, w.Close())
}

// endThread returns when a thread of this process is about to end, which the first one never does.
func endThread() {
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		runtime.LockOSThread() // and a goroutine that ends locked ends its thread
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			endThread()
		}
	}()
	<-locked
}

// withoutTypes says why the types of the kernel cannot be read.
func withoutTypes(host kernel.FS, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, sysErr := os.Stat(filepath.Join(host.Sys, "kernel")); sysErr != nil {
		return bpf.NewRefused("the types of the kernel are not visible here", "mount -t sysfs sysfs "+host.Sys, err)
	}
	return bpf.NewRefused("the kernel has no BTF", "a kernel with CONFIG_DEBUG_INFO_BTF=y", err)
}

// explain says what is missing where exits are not had.
func explain(host kernel.FS, err error) error {
	return bpf.Explain(host, err, bpf.Needs{
		Capability: "CAP_PERFMON", Number: unix.CAP_PERFMON, ReadsMemory: true,
		Kernel: "Linux 5.10 or later with CONFIG_BPF_EVENTS=y",
	})
}

// mostReaders bounds the readers on a machine: every context switch runs the programs of them all, some 50 ns each.
const mostReaders = 16

// checkReaders returns an error if as many readers as may be on this machine have loaded a program before this one. The
// loaded programs themselves are counted: only who may load them can pretend to be a reader, in whatever namespaces.
// Without CAP_SYS_ADMIN the kernel does not list them, and there is no bound.
func checkReaders(own ebpf.ProgramID, most int) error {
	before, err := readersBefore(own)
	if err != nil || before < most {
		return err
	}
	return fmt.Errorf("%d other processes do on this machine, and each slows every context switch down: %w",
		before, ErrBusy)
}

// readersBefore counts the programs of readers that were loaded before one of them, so that of several that are loaded
// at once the first stay.
func readersBefore(own ebpf.ProgramID) (int, error) {
	for n, id := 0, ebpf.ProgramID(0); ; {
		var err error
		if id, err = ebpf.ProgramGetNextID(id); errors.Is(err, fs.ErrNotExist) || err == nil && id >= own {
			return n, nil
		}
		if err != nil {
			return 0, err //nolint:wrapcheck // it is not shown
		}
		if isReader(id) {
			n++
		}
	}
}

// readerName is what readers are counted by.
const readerName = "tacho_switch"

// isReader reports whether a loaded program is that of a reader. One that is unloaded meanwhile is not, nor is one that
// the library does not know.
func isReader(id ebpf.ProgramID) bool {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false
	}
	defer p.Close()
	if p.Type() != ebpf.RawTracepoint {
		return false
	}
	info, err := p.Info()
	return err == nil && info.Name == readerName
}
