// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// interruptible is a reader of a file that may block forever, such as a terminal. Close ends the reading.
type interruptible struct {
	file        *os.File
	fd          int
	wake, woken *os.File
	work        sync.WaitGroup
}

func newInterruptible(file *os.File) (*interruptible, error) {
	woken, wake, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	return &interruptible{file: file, fd: int(file.Fd()), wake: wake, woken: woken}, nil
}

// start runs read, which reads until Close, in a goroutine.
func (r *interruptible) start(read func()) { r.work.Go(read) }

// Read implements io.Reader. It returns io.EOF after Close.
func (r *interruptible) Read(p []byte) (int, error) {
	watched := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(r.woken.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(watched, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("poll: %w", err)
		case watched[1].Revents != 0:
			return 0, io.EOF
		}
		return r.file.Read(p)
	}
}

// Close ends the reading and waits for the goroutines. It does not close the file.
func (r *interruptible) Close() error {
	err := r.wake.Close()
	r.work.Wait()
	return errors.Join(err, r.woken.Close())
}
