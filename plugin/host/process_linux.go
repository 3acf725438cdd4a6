// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats/kernel"
)

// ownSession keeps a terminal's signals, meant for the host, from its plugins.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func isExecutable(info fs.FileInfo) bool { return info.Mode().Perm()&0o111 != 0 }

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
