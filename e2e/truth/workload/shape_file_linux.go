// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/truth/shape"
)

// file takes a step that works on a file.
func (p *player) file(i int, step shape.Step) error {
	name := filepath.Join(p.dir, shape.FileName(p.report.Path, i))
	flags := os.O_RDWR | os.O_CREATE
	if step.Kind == shape.Direct {
		flags |= unix.O_DIRECT
	}
	file, err := open(name, flags)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // this file system cannot do it
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if err := write(file, step); err != nil {
		return fmt.Errorf("%s: %w", step.Kind, err)
	}
	stored, err := p.settle(file, step)
	if err != nil || step.Kind == shape.Reserve {
		return err
	}
	p.note(step, stored)
	if step.Kind != shape.ReadBack {
		return nil
	}
	return p.readBack(name, file, step.Size)
}

// note adds what was written to the report, if there is a disk below.
func (p *player) note(step shape.Step, stored bool) {
	if (&workload{dir: p.dir}).onDisk() != nil {
		return
	}
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

func write(file *os.File, step shape.Step) error {
	switch step.Kind {
	case shape.Direct:
		return writeBlocks(file, step.Size)
	case shape.Store:
		if err := file.Truncate(step.Size); err != nil {
			return err
		}
		memory, err := touchShared(file, step.Size)
		if err != nil {
			return err
		}
		return unix.Munmap(memory)
	case shape.Sendfile:
		return sendAll(file, step.Size)
	case shape.Copy:
		return copyRange(file, step.Size)
	case shape.Reserve:
		return uninterrupted(func() error { return unix.Fallocate(int(file.Fd()), 0, 0, step.Size) })
	}
	return fill(file, step.Size)
}

// sendAll sends the same piece of memory to a file until it has so many bytes.
func sendAll(file *os.File, size int64) error {
	from, err := memfd(min(size, mib))
	if err != nil {
		return err
	}
	defer from.Close()
	for left := size; left > 0; {
		var offset int64
		var n int
		err := uninterrupted(func() (err error) {
			n, err = unix.Sendfile(int(file.Fd()), int(from.Fd()), &offset, int(min(left, mib)))
			return err
		})
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// copyRange has the kernel copy a file that is written first, and deleted then.
func copyRange(file *os.File, size int64) error {
	from, err := os.Create(file.Name() + "-from")
	if err != nil {
		return err
	}
	defer from.Close()
	if err := errors.Join(os.Remove(from.Name()), fill(from, size)); err != nil {
		return err
	}
	var offset int64
	for offset < size {
		var n int
		err := uninterrupted(func() (err error) {
			n, err = unix.CopyFileRange(int(from.Fd()), &offset, int(file.Fd()), nil, int(size-offset), 0)
			return err
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// uninterrupted makes a system call until no signal interrupts it: the Go runtime sends its threads some, and retries only
// the calls of package os.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// settle does what is to become of a file, and reports whether its bytes are on the disk for certain.
func (p *player) settle(file *os.File, step shape.Step) (stored bool, err error) {
	switch step.After {
	case shape.Sync:
		stored, err = true, file.Sync()
	case shape.Unlink:
		err = os.Remove(file.Name())
	case shape.Truncate:
		err = file.Truncate(0)
	}
	return stored || step.Kind == shape.Direct, err
}

// readBack drops a file from the page cache and reads it.
func (p *player) readBack(name string, file *os.File, size int64) error {
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("fadvise: %w", err)
	}
	if err := readFile(name, 0); err != nil {
		return err
	}
	p.report.Read += size
	if (&workload{dir: p.dir}).onDisk() == nil {
		p.report.Loaded += size
	}
	return nil
}
