// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kmsg

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Path is the kernel's log. It can be read by whoever may, unless kernel.dmesg_restrict is 1: then CAP_SYSLOG is
// needed too. Containers often have no such file.
const Path = "/dev/kmsg"

// recordSize is enough for every record: the kernel answers EINVAL where it is not.
const recordSize = 8 << 10

// Reader reads kills from the log. It is used by one goroutine at a time.
type Reader struct {
	fd     int
	parser Parser
	buffer []byte
}

// Open opens the log, at its oldest record. It is a bare descriptor: the runtime's poller would wake the process with
// every line that the kernel logs.
func Open() (*Reader, error) {
	fd, err := unix.Open(Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: Path, Err: err}
	}
	return &Reader{fd: fd, buffer: make([]byte, recordSize)}, nil
}

// Next returns the kills that were logged since the last call, oldest first; the first call goes through everything
// that the log still has, some milliseconds of work. Records that the kernel has overwritten are passed over.
func (r *Reader) Next() ([]Kill, error) {
	var kills []Kill
	for {
		n, err := unix.Read(r.fd, r.buffer)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE):
			continue // EPIPE: the next read goes on at the oldest record there is
		case errors.Is(err, unix.EAGAIN):
			return kills, nil
		case err != nil:
			return kills, fmt.Errorf("read %s: %w", Path, err)
		case n == 0:
			// The log has no end: a sandbox has put another file in its place.
			return kills, fmt.Errorf("read %s: %w", Path, io.ErrUnexpectedEOF)
		}
		record, err := ParseRecord(r.buffer[:n])
		if err != nil {
			continue // a format of its own is no kill that we could read
		}
		if kill, ok := r.parser.Add(record); ok {
			kills = append(kills, kill)
		}
	}
}

// Wait blocks until something is logged or the time is up.
func (r *Reader) Wait(timeout time.Duration) error {
	events := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	_, err := unix.Poll(events, int(timeout.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("poll %s: %w", Path, err)
	}
	return nil
}

// Close gives up the descriptor.
func (r *Reader) Close() error { return unix.Close(r.fd) }
