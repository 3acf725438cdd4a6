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
func (p *player) hold(step shape.Step) error {
	var err error
	held := step.Size
	switch step.Kind {
	case shape.Private:
		_, err = touch(step.Size)
	case shape.Spike:
		p.most(step.Size)
		return spikeFor(step.Size, step.Time)
	case shape.Mapped:
		_, err = touchMapped(-1, step.Size, unix.MAP_ANONYMOUS|unix.MAP_SHARED)
	case shape.Huge:
		_, err = touchMapped(-1, step.Size, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unix.MAP_HUGETLB)
		held = 0
		if err == nil {
			p.report.Huge += step.Size
		}
	case shape.Memfd:
		var file *os.File
		file, err = memfd(step.Size)
		p.kept = append(p.kept, file)
	case shape.Shm:
		err = p.shm(step.Size)
	case shape.Pipes:
		held, err = fillPipes(step.Count)
	case shape.Sockets:
		held = 0
		p.report.Sockets, err = fillSockets(step.Count)
	default:
		return fmt.Errorf("unknown kind %q", step.Kind)
	}
	if step.Kind == shape.Huge && errors.Is(err, unix.ENOMEM) || step.Kind == shape.Shm && errors.Is(err, fs.ErrNotExist) {
		return nil // this machine cannot do it
	}
	if err != nil {
		return err
	}
	p.report.Held += held
	p.most(0)
	return nil
}

func spikeFor(size int64, d time.Duration) error {
	memory, err := touch(size)
	if err != nil {
		return err
	}
	time.Sleep(d)
	return unix.Munmap(memory)
}

// memfd returns a file in memory with so many bytes written to it.
func memfd(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("shape", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "shape")
	return file, fill(file, size)
}

func (p *player) shm(size int64) error {
	file, err := os.CreateTemp("/dev/shm", "shape")
	if err != nil {
		return err
	}
	p.kept = append(p.kept, file)
	return errors.Join(os.Remove(file.Name()), fill(file, size))
}

// fill writes so many bytes, in small pieces.
func fill(file *os.File, size int64) error {
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = byte(i)
	}
	for left := size; left > 0; left -= min(left, int64(len(block))) {
		if _, err := file.Write(block[:min(left, int64(len(block)))]); err != nil {
			return err
		}
	}
	return nil
}

// fillPipes fills pipes without a reader, and leaves them open.
func fillPipes(count int) (filled int64, err error) {
	for range count {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return filled, fmt.Errorf("pipe: %w", err)
		}
		// Without privilege there is a bound on it.
		_, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, mib)
		if err != nil && !errors.Is(err, unix.EPERM) {
			return filled, fmt.Errorf("set pipe size: %w", err)
		}
		n, err := stuff(ends[1], mib)
		filled += n
		if err != nil {
			return filled, err
		}
	}
	return filled, nil
}

// fillSockets fills socket pairs without a reader, and leaves them open.
func fillSockets(count int) (filled int64, err error) {
	for range count {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return filled, fmt.Errorf("socketpair: %w", err)
		}
		n, err := stuff(ends[0], mib/2)
		filled += n
		if err != nil {
			return filled, err
		}
	}
	return filled, nil
}

// stuff writes to a descriptor until it takes no more, or so many bytes.
func stuff(fd int, most int64) (written int64, err error) {
	block := make([]byte, 4096)
	for written < most {
		var n int
		err := uninterrupted(func() (err error) {
			n, err = unix.Write(fd, block)
			return err
		})
		if errors.Is(err, unix.EAGAIN) {
			return written, nil
		}
		if err != nil {
			return written, fmt.Errorf("fill: %w", err)
		}
		written += int64(n)
	}
	return written, nil
}
