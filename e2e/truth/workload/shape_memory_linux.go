// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/truth/shape"
)

// most notes how much is held, with something more for a moment.
func (p *player) most(more int64) {
	p.report.Most = max(p.report.Most, p.report.Held+p.report.Lasting+more)
}

// hold takes a step that takes memory. What is mapped stays mapped: unix.Mmap keeps it.
func (p *player) hold(step shape.Step) {
	held := step.Size
	switch step.Kind {
	case shape.Private:
		touch(step.Size)
	case shape.Spike:
		p.most(step.Size)
		memory := touch(step.Size)
		time.Sleep(step.Time)
		unmap(memory)
		return
	case shape.Mapped:
		value(touchMapped(-1, step.Size, unix.MAP_ANONYMOUS|unix.MAP_SHARED))
	case shape.Huge:
		_, err := touchMapped(-1, step.Size, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unix.MAP_HUGETLB)
		if errors.Is(err, unix.ENOMEM) {
			return // this machine cannot do it
		}
		check(err)
		held = 0
		p.report.Huge += step.Size
	case shape.Memfd:
		p.kept = append(p.kept, memfd(step.Size))
	case shape.Shm:
		file, err := os.CreateTemp("/dev/shm", "shape")
		if errors.Is(err, fs.ErrNotExist) {
			return // this machine cannot do it
		}
		check(err)
		p.kept = append(p.kept, file)
		check(os.Remove(file.Name()))
		fill(file, step.Size)
	case shape.Pipes:
		held = fillPipes(step.Count)
	case shape.Sockets:
		held = 0
		p.report.Sockets = fillSockets(step.Count)
	default:
		check(fmt.Errorf("unknown kind %q", step.Kind))
	}
	p.report.Held += held
	p.most(0)
}

// memfd returns a file in memory with so many bytes written to it.
func memfd(size int64) *os.File {
	fd, err := unix.MemfdCreate("shape", unix.MFD_CLOEXEC)
	check(os.NewSyscallError("memfd_create", err))
	file := os.NewFile(uintptr(fd), "shape")
	fill(file, size)
	return file
}

// fill writes so many bytes, in small pieces.
func fill(file *os.File, size int64) {
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = byte(i)
	}
	for left := size; left > 0; left -= min(left, int64(len(block))) {
		value(file.Write(block[:min(left, int64(len(block)))]))
	}
}

// fillPipes fills pipes without a reader, and leaves them open.
func fillPipes(count int) (filled int64) {
	for range count {
		var ends [2]int
		check(os.NewSyscallError("pipe", unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK)))
		// Without privilege there is a bound on it.
		if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, mib); !errors.Is(err, unix.EPERM) {
			check(os.NewSyscallError("set pipe size", err))
		}
		filled += stuff(ends[1], mib)
	}
	return filled
}

// fillSockets fills socket pairs without a reader, and leaves them open.
func fillSockets(count int) (filled int64) {
	for range count {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		check(os.NewSyscallError("socketpair", err))
		filled += stuff(ends[0], mib/2)
	}
	return filled
}

// stuff writes to a descriptor until it takes no more, or so many bytes.
func stuff(fd int, most int64) (written int64) {
	block := make([]byte, 4096)
	for written < most {
		n, err := uninterrupted(func() (int, error) { return unix.Write(fd, block) })
		if errors.Is(err, unix.EAGAIN) {
			return written
		}
		check(os.NewSyscallError("write", err))
		written += int64(n)
	}
	return written
}
