// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"path/filepath"
)

// release is the version of a kernel; zero if it is not known.
type release struct{ major, minor int }

// release reads sys/kernel/osrelease below proc, such as 6.12.9-amd64; proc_sys_kernel(5).
func (fs FS) release() (r release) {
	word := readWord(filepath.Join(fs.Proc, "sys", "kernel"), "osrelease")
	if _, err := fmt.Sscanf(word, "%d.%d", &r.major, &r.minor); err != nil {
		return release{}
	}
	return r
}

// before reports whether the kernel is known to be older than a version.
func (r release) before(major, minor int) bool {
	return r.major > 0 && (r.major < major || r.major == major && r.minor < minor)
}
