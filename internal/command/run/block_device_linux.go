// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// blockDevice returns the major:minor of a block device. name is that, or a path.
func blockDevice(name string) (string, error) {
	if !strings.Contains(name, "/") {
		return name, nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", fmt.Errorf("%s: not a block device (lsblk lists them)", name)
	}
	return fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)), nil
}
