// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestSignalNames(t *testing.T) {
	names := strings.Split(signalNames(), ",")
	for _, want := range []string{"SIGHUP", "SIGKILL", "SIGUSR2"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %q", want, names)
		}
	}
}

func TestCgroupVersion(t *testing.T) {
	for file, want := range map[string]string{"cgroup.controllers": "2", "memory/tasks": "1", "other": ""} {
		root := t.TempDir()
		path := filepath.Join(root, file)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, nil, 0o644))
		testkit.Equal(t, cgroupVersion(root), want, "with %s", file)
	}
}
