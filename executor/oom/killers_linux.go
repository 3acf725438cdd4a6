// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/procstats/kernel"
)

// userspaceKillers lists the running programs that are known to send SIGKILL when memory is short.
func userspaceKillers(host kernel.FS) []string {
	entries, err := os.ReadDir(host.Proc)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(host.Proc, entry.Name(), "comm"))
		if err != nil {
			continue // it has ended, or is not ours to see
		}
		name := strings.TrimSpace(string(comm))
		if slices.Contains([]string{"systemd-oomd", "earlyoom", "nohang", "oomd"}, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
