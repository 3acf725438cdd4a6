// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// LogPath is the kernel's log. Reading it requires permission, and CAP_SYSLOG if kernel.dmesg_restrict is 1.
// Containers often have no such file.
const LogPath = "/dev/kmsg"

// recordSize is enough for every record; the kernel returns EINVAL otherwise.
const recordSize = 8 << 10

// LogReader reads kills from the log, in one goroutine at a time.
type LogReader struct {
	fd     int
	parser LogParser
	buffer []byte
}

// OpenLog opens the log at its oldest record. It uses a bare descriptor: the runtime's poller would wake the process
// with every line that the kernel logs.
func OpenLog() (*LogReader, error) {
	fd, err := unix.Open(LogPath, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: LogPath, Err: err}
	}
	return &LogReader{fd: fd, buffer: make([]byte, recordSize)}, nil
}

// Next returns the kills that were logged since the last call, oldest first. The first call reads the whole log,
// which takes some milliseconds. It skips records that the kernel has overwritten.
func (r *LogReader) Next() ([]LoggedKill, error) {
	var kills []LoggedKill
	for {
		n, err := unix.Read(r.fd, r.buffer)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE):
			continue // EPIPE: the next read goes on at the oldest record there is
		case errors.Is(err, unix.EAGAIN):
			return kills, nil
		case err != nil:
			return kills, fmt.Errorf("read %s: %w", LogPath, err)
		case n == 0:
			// The log has no end: a sandbox has put another file in its place.
			return kills, fmt.Errorf("read %s: %w", LogPath, io.ErrUnexpectedEOF)
		}
		record, err := ParseLogRecord(r.buffer[:n])
		if err != nil {
			continue // a format of its own is no kill that we could read
		}
		if kill, ok := r.parser.Add(record); ok {
			kills = append(kills, kill)
		}
	}
}

// Wait waits until something is logged or the time is up.
func (r *LogReader) Wait(timeout time.Duration) error {
	events := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	_, err := unix.Poll(events, int(timeout.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("poll %s: %w", LogPath, err)
	}
	return nil
}

// Close closes the log.
func (r *LogReader) Close() error { return unix.Close(r.fd) }
