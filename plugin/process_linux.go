// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats/kernel"
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

// kill kills the process of an address, which ends with its boot. It needs a pidfd, since Linux 5.3.
func kill(address Address) error {
	if !alive(address) {
		return nil
	}
	p, err := process.Open(kernel.HostFS(), address.Process)
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(p.Signal(unix.SIGKILL), p.Close())
}
