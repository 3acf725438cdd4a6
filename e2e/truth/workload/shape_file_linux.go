// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/truth/shape"
)

// file takes a step that works on a file.
func (p *player) file(i int, step shape.Step) {
	name := filepath.Join(p.dir, shape.FileName(p.report.Path, i))
	flags := os.O_RDWR | os.O_CREATE
	if step.Kind == shape.Direct {
		flags |= unix.O_DIRECT
	}
	file, err := open(name, flags)
	if errors.Is(err, errors.ErrUnsupported) {
		return // this file system cannot do it
	}
	check(err)
	defer file.Close()
	write(file, step)
	stored := settle(file, step)
	if step.Kind == shape.Reserve {
		return
	}
	isDisk := onDisk(p.dir)
	if isDisk {
		p.note(step, stored)
	}
	if step.Kind != shape.ReadBack {
		return
	}
	forget(file)
	readFile(name, 0)
	p.report.Read += step.Size
	if isDisk {
		p.report.Loaded += step.Size
	}
}

// note adds what was written to a disk to the report.
func (p *player) note(step shape.Step, stored bool) {
	p.report.Handed += step.Size
	if step.Kind == shape.Copy {
		p.report.Handed += step.Size
		p.report.Dropped += step.Size
	}
	switch {
	case stored:
		p.report.Stored += step.Size
	case step.After == shape.Unlink || step.After == shape.Truncate:
		p.report.Dropped += step.Size
	}
}

func write(file *os.File, step shape.Step) {
	switch step.Kind {
	case shape.Direct:
		writeBlocks(file, step.Size)
	case shape.Store:
		check(file.Truncate(step.Size))
		unmap(touchShared(file, step.Size))
	case shape.Sendfile:
		sendAll(file, step.Size)
	case shape.Copy:
		copyRange(file, step.Size)
	case shape.Reserve:
		_, err := uninterrupted(func() (int, error) { return 0, unix.Fallocate(int(file.Fd()), 0, 0, step.Size) })
		check(os.NewSyscallError("fallocate", err))
	default:
		fill(file, step.Size)
	}
}

// sendAll sends the same piece of memory to a file until it has so many bytes.
func sendAll(file *os.File, size int64) {
	from := memfd(min(size, mib))
	for left := size; left > 0; {
		n, err := uninterrupted(func() (int, error) {
			return unix.Sendfile(int(file.Fd()), int(from.Fd()), new(int64), int(min(left, mib)))
		})
		check(os.NewSyscallError("sendfile", err))
		left -= int64(n)
	}
	check(from.Close())
}

// copyRange has the kernel copy a file that is written first, and deleted then.
func copyRange(file *os.File, size int64) {
	from := value(os.Create(file.Name() + "-from"))
	check(os.Remove(from.Name()))
	fill(from, size)
	var offset int64
	for offset < size {
		n, err := uninterrupted(func() (int, error) {
			return unix.CopyFileRange(int(from.Fd()), &offset, int(file.Fd()), nil, int(size-offset), 0)
		})
		check(os.NewSyscallError("copy_file_range", err))
		if n == 0 {
			check(io.ErrUnexpectedEOF)
		}
	}
	check(from.Close())
}

// uninterrupted makes a system call until no signal interrupts it: the Go runtime sends its threads some, and retries
// only the calls of package os.
func uninterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// settle does what is to become of a file, and reports whether its bytes are on the disk for certain.
func settle(file *os.File, step shape.Step) (stored bool) {
	switch step.After {
	case shape.Sync:
		stored = true
		check(file.Sync())
	case shape.Unlink:
		check(os.Remove(file.Name()))
	case shape.Truncate:
		check(file.Truncate(0))
	}
	return stored || step.Kind == shape.Direct
}
