// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Connect connects to a stream socket in the file system, and closes the connection again: unix(7). It returns nil if a
// process listens, also one that accepts no connection at present, and an error that wraps ECONNREFUSED if none does,
// whatever namespaces it is in.
func Connect(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err //nolint:wrapcheck // only looked at
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	_ = unix.Close(fd) // nothing was written
	return err         //nolint:wrapcheck // as above
}
