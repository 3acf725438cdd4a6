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

// interruptible reads a file that may have nothing to say for ever, a terminal say, so that the reading can be ended.
type interruptible struct {
	file       *os.File
	fd         int
	wake, hear *os.File
	work       sync.WaitGroup
}

func newInterruptible(file *os.File) (*interruptible, error) {
	hear, wake, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return &interruptible{file: file, fd: int(file.Fd()), wake: wake, hear: hear}, nil
}

// serve runs something that reads until Close.
func (r *interruptible) serve(read func()) { r.work.Go(read) }

// Read reads what there is. After Close it is io.EOF.
func (r *interruptible) Read(p []byte) (int, error) {
	watched := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(r.hear.Fd()), Events: unix.POLLIN}}
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

// Close ends the reading and waits for whoever was served. The file itself stays open.
func (r *interruptible) Close() error {
	err := r.wake.Close()
	r.work.Wait()
	return errors.Join(err, r.hear.Close())
}
