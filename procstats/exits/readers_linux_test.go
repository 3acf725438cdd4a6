// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// readerProgram loads a program as readers do, without attaching it.
func readerProgram(t *testing.T) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(program("sched_switch", nil))
	if err != nil {
		t.Skipf("no exit records here: %v", err)
	}
	closing(t, p)
	return p
}

// TestReaders holds that readers are counted in the order in which they loaded their programs, and that one that ends
// makes room.
func TestReaders(t *testing.T) {
	first, second, third := readerProgram(t), readerProgram(t), readerProgram(t)
	others, err := readersBefore(first) // of this machine
	if err != nil {
		t.Skipf("the loaded programs cannot be listed here: %v", err)
	}
	if err := checkReaders(second, others+2); err != nil {
		t.Errorf("with room for one more: %v", err)
	}
	if err := checkReaders(third, others+2); others == 0 && !errors.Is(err, ErrBusy) { // other ones can have ended meanwhile
		t.Errorf("beyond the bound: %v", err)
	}
	must(t, second.Close())
	if err := checkReaders(third, others+2); err != nil {
		t.Errorf("after another has ended: %v", err)
	}
}

// TestNoSlots holds that nobody can keep a reader from counting who may not load programs: names of sockets are
// everybody's.
func TestNoSlots(t *testing.T) {
	for i := range mostReaders {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		_ = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@tacho-exits-%d", i)}) // else a reader of an older build has it
	}
	p := readerProgram(t)
	if n, err := readersBefore(p); err != nil || n >= mostReaders {
		t.Skipf("%d readers are on this machine, %v", n, err)
	}
	if r, err := Open(kernel.HostFS()); errors.Is(err, ErrBusy) {
		t.Error(err)
	} else if err == nil {
		noError(t, r.Close())
	}
}
