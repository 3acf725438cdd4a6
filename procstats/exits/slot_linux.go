// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mostReaders bounds the readers on a machine: every context switch runs the programs of them all, some 50 ns each.
const mostReaders = 16

// takeSlot makes this process one of at most mostReaders, until the descriptor is closed. The slots are names of sockets, which
// the kernel frees when a process dies.
func takeSlot() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("create socket: %w", err)
	}
	for i := range mostReaders {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@tacho-exits-%d", i)})
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("%d other processes do on this machine, and each slows every context switch down: %w", mostReaders, ErrBusy)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
