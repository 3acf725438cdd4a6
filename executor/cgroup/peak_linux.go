// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ResetPeaks restarts the highest memory use of a v2 group, which may have had other tasks before, for the files that
// it returns by name, and for no other reader. The caller reads and closes them. Before Linux 6.12, and without write
// access, files are missing. A group that was made for the task needs no reset.
func (g *Group) ResetPeaks() map[string]*os.File {
	files := map[string]*os.File{}
	if g.Owned || g.V2 == "" {
		return files
	}
	for _, name := range []string{"memory.peak", "memory.swap.peak"} {
		path := filepath.Join(g.V2, name)
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		// Any text will do, https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files.
		if _, err := unix.Write(fd, []byte("reset\n")); err != nil {
			_ = unix.Close(fd)
			continue
		}
		// A blocking descriptor, so that the runtime's poller is not woken by the group's events.
		files[name] = os.NewFile(uintptr(fd), path)
	}
	return files
}
