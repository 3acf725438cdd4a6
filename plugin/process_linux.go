// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"
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
