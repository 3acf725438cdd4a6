// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownSession keeps a terminal's signals, meant for the host, from its plugins.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func isExecutable(info fs.FileInfo) bool { return info.Mode().Perm()&0o111 != 0 }

// surviveBrokenPipe keeps the process alive when it writes to a standard stream that nobody reads, until stop is
// called. A signal that is notified does not kill, and is not inherited by children as an ignored one would be.
func surviveBrokenPipe() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// kill kills the process of an address. It needs a pidfd, since Linux 5.3: once the identity is found right, the signal
// cannot reach another process. os.FindProcess would do without one.
func kill(address Address) (err error) {
	fd, err := unix.PidfdOpen(address.Process.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if !alive(address) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
