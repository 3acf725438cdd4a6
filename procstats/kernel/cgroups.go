// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"path/filepath"
	"strings"
)

// ControllerDisabled reports whether the last column of /proc/cgroups, enabled, is 0 for a controller, cgroups(7). Some
// kernels leave out of the file what they have for v2 only; those are not disabled.
func ControllerDisabled(fs FS, controller string) bool {
	text, err := os.ReadFile(filepath.Join(fs.Proc, "cgroups"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[0] == controller {
			return fields[3] == "0"
		}
	}
	return false
}
