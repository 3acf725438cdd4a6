// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"slices"

	"github.com/tachograph/tacho/procstats/kernel"
)

// userspaceKillers lists the running programs that are known to send SIGKILL when memory is short.
func userspaceKillers(host kernel.FS) []string {
	pids, err := kernel.Processes(host)
	if err != nil {
		return nil
	}
	var names []string
	for _, pid := range pids {
		name, err := kernel.Comm(host, pid)
		if err != nil {
			continue // it has ended, or is not ours to see
		}
		if slices.Contains([]string{"systemd-oomd", "earlyoom", "nohang", "oomd"}, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
