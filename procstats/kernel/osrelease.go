// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"path/filepath"
)

// Release is the release of a kernel; zero if it is not known.
type Release struct {
	Text         string // such as 6.12.9-amd64
	Major, Minor int
}

// OSRelease reads sys/kernel/osrelease below proc, proc_sys_kernel(5).
func OSRelease(root FS) Release {
	r := Release{Text: readWord(filepath.Join(root.Proc, "sys", "kernel"), "osrelease")}
	if _, err := fmt.Sscanf(r.Text, "%d.%d", &r.Major, &r.Minor); err != nil {
		return Release{Text: r.Text}
	}
	return r
}

// AtLeast reports whether the kernel is known to be of a version or a later one.
func (r Release) AtLeast(major, minor int) bool {
	return r.Major > major || r.Major == major && r.Minor >= minor
}

// Before reports whether the kernel is known to be older than a version.
func (r Release) Before(major, minor int) bool { return r.Major > 0 && !r.AtLeast(major, minor) }
